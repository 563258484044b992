"""A server that sends other code than its nodes have: it does not run there."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.runtime import run_clientapp
from policies import with_policy

from curvfed.client_app.app import app
from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger import ledger_of
from curvfed.client_app.node.ledger_memory import REFUSAL
from curvfed.deployments.package_files import app_folder
from curvfed.extensions.cluster.commands import node_code
from curvfed.extensions.cluster.commands.node_config import check_code
from curvfed.extensions.cluster.commands.run import bundle_digest
from curvfed.strategies.wire.codec import encode_request
from curvfed.strategies.wire.messages import DESCRIBE, MESSAGE_TYPES, Header, Request

pytestmark = [
    pytest.mark.usefixtures("own_home"),
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),
]


@pytest.fixture
def altered() -> Iterator[Path]:
    """The app as it is sent, with a line of the server's own."""
    with app_folder("fedavg") as folder:
        file = folder / "curvfed" / "client_app" / "app.py"
        file.write_text("open('was-here', 'w').close()\n" + file.read_text())
        yield folder


@pytest.fixture
def node(tmp_path: Path) -> dict[str, Any]:
    return {"partition-id": 0, "num-partitions": 2, "state-path": str(tmp_path / "state")}


def message() -> Message:
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    content = encode_request(Request(Header("run", DESCRIBE, 0)))
    return Message(content, 1, MESSAGE_TYPES[DESCRIBE])


def error(chosen: node_code.App | None, node: dict[str, Any]) -> str:
    """The error in an app's reply to a run's first message."""
    assert chosen is not None
    reply = chosen(message(), Context(1, 1, node, RecordDict(), {})).content
    assert reply["header"]["phase"] == DESCRIBE
    return str(reply["header"]["error"])


def test_flowers_program_runs_the_installed_code(altered, node, tmp_path, monkeypatch, caplog):
    """It ran the server's, with the rights of the SuperNode's user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    task = (message(), SimpleNamespace(node_config=node), None, None)
    monkeypatch.setattr(run_clientapp, "pull_task_input", lambda client: task)
    for name in node_code.REPLACED:
        monkeypatch.setattr(run_clientapp, name, getattr(run_clientapp, name))
    node_code.guard_program()
    assert run_clientapp.pull_task_input(None) == task
    run_clientapp.install_from_fab(build_fab_from_disk(altered), skip_prompt=True)
    assert run_clientapp.install_app_dependencies("a package of the server's") is None
    load = run_clientapp.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    assert load("flwrlabs/other", "1.0", "0") is app
    assert not list(tmp_path.rglob("was-here"))
    assert not (tmp_path / "apps").exists()
    assert "has other code for nodes than curvfed" in caplog.text


def test_the_same_code_is_not_worth_a_line(node, caplog):
    with app_folder("fedavg") as folder:
        assert node_code.chosen_app(build_fab_from_disk(folder), node, is_first=True) is app
    assert not caplog.records


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f'version = "{version("curvfed")}"', 'version = "99.0"'),
        ('name = "curvfed"', 'name = "another"'),
    ],
)
def test_another_app_is_refused_by_name(altered, node, old, new):
    project = altered / "pyproject.toml"
    project.write_text(project.read_text().replace(old, new))
    bundle = build_fab_from_disk(altered)
    refusal = error(node_code.chosen_app(bundle, node), node)
    installed = node_code.installed_code()
    offered = new.partition('"')[2].rstrip('"')
    assert installed in refusal
    assert offered in refusal
    assert f'[runs] code = ["{bundle_digest(altered)}"]' in refusal
    (line,) = ledger_of(Node.read(node)).lines()
    assert line["kind"] == REFUSAL
    assert line["reason"] == refusal


def test_code_runs_that_the_policy_names(altered, node, tmp_path, monkeypatch):
    """Here the modules of the same names are imported already."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    monkeypatch.setattr(node_code, "_forget_installed", lambda: None)
    bundle = build_fab_from_disk(altered)
    digest = bundle_digest(altered)
    (allowing,) = with_policy(tmp_path / "a", [node], f'[runs]\ncode = ["{digest}"]')
    assert node_code.chosen_app(bundle, allowing) is app
    (place,) = (tmp_path / "flower").rglob("client_app/app.py")
    assert place.read_text().startswith("open")
    assert digest.removeprefix("sha256:") in place.parts
    (mismatched,) = with_policy(tmp_path / "b", [node], f'[runs]\ncode = ["sha256:{"0" * 64}"]')
    assert node_code.chosen_app(bundle, mismatched) is app
    (anything,) = with_policy(tmp_path / "c", [node], '[runs]\ncode = "any"')
    assert node_code.chosen_app(bundle, anything) is None
    assert check_code(Node.read(anything)).startswith("any that the server sends")
    assert check_code(Node.read(node)) == node_code.installed_code()
    assert "no readable app" in error(node_code.chosen_app(b"", node), node)
    (wrong,) = with_policy(tmp_path / "d", [node], '[runs]\ncode = "ours"')
    assert '"installed", "any", or a list' in error(node_code.chosen_app(bundle, wrong), wrong)

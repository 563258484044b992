"""A real server that sends altered code to two real nodes, over TLS."""

from pathlib import Path

import pytest
from local_cluster import LocalCluster, cluster, shares

from curvfed.deployments.package_files import app_folder
from curvfed.deployments.processes import wait_until
from curvfed.deployments.run_results import toml_pairs
from curvfed.extensions.cluster.commands.flower_commands import flwr
from curvfed.extensions.cluster.commands.run import bundle_digest

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),
]

LINE = """
import os, pathlib
pathlib.Path(os.environ["FLWR_HOME"], "was-here").touch()
"""


def run_altered(nodes: LocalCluster, name: str) -> str:
    """Run the app with a line of the server's own, to its end; the digest of the bundle."""
    config = {
        "method": "fedavg",
        "dataset": "trees",
        "num-rounds": 1,
        "min-replies": 2,
        "run-name": name,
        "results-dir": str(nodes.results),
    }
    with app_folder("fedavg") as app:
        file = app / "curvfed" / "client_app" / "app.py"
        file.write_text(LINE + file.read_text())
        options = ["--run-config", toml_pairs(config), "--format", "json"]
        flwr(nodes.files, "run", app, options=options).ask()
        digest = bundle_digest(app)
    assert wait_until((nodes.results / name / "summary.json").exists, 300)
    assert nodes.summary(name)["status"] == "completed"
    return digest


def altered_nodes(nodes: LocalCluster) -> set[str]:
    """The nodes where the server's line has run; it is forgotten."""
    places = list(nodes.files.path.rglob("was-here"))
    for place in places:
        place.unlink()
    return {place.relative_to(nodes.files.path / "nodes").parts[0] for place in places}


def set_code(nodes: LocalCluster, name: str, code: str) -> None:
    policy: Path = nodes.files.node(name).policy
    policy.write_text(f"[runs]\ncode = {code}\n")


def test_code_of_the_server_runs_only_where_the_policy_names_it(tmp_path):
    with cluster(tmp_path, shares(2)) as nodes:
        digest = run_altered(nodes, "own")
        assert altered_nodes(nodes) == set()
        said = nodes.program("n0").text()
        assert f"bundle {digest} has other code for nodes than curvfed" in said
        set_code(nodes, "n0", f'["{digest}"]')
        assert run_altered(nodes, "named") == digest
        assert altered_nodes(nodes) == {"n0"}
        set_code(nodes, "n0", '["sha256:' + "0" * 64 + '"]')
        set_code(nodes, "n1", '"any"')
        run_altered(nodes, "any")
        assert altered_nodes(nodes) == {"n1"}
        nodes.program("n0").stop()
        nodes.start_node("n0", "--cold")
        run_altered(nodes, "cold")
        assert altered_nodes(nodes) == {"n1"}

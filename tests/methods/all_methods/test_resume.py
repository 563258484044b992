"""Equal runs are equal to the bit, also interrupted anywhere and gone on with."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch
from app_runs import Fault, Recorder, Run, phase_of, real_nodes, run
from errors import refuses
from graph_fixtures import user_fields
from tiers import only

from curvfed.server_app.directory.run_name import check_name
from curvfed.strategies.config.parse import parse, read_settings
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.store import Store

ROOT = Path(__file__).parents[3]


class Stop:
    """Interrupts a run at a message, from 0: before the client gets it, or after it answers."""

    def __init__(self, at: int, after: bool) -> None:
        self.left, self.after = at, after

    def __call__(self, request, handle):
        self.left -= 1
        if self.left >= 0:
            return handle(request)
        if self.after:
            handle(request)
        raise KeyboardInterrupt


def interrupted(folder: Path, at: int, after: bool, **settings) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(folder, intercept=Stop(at, after), **settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Callable[[int], Run]:
    """The run of the defaults with so many rounds; made once."""

    @cache
    def make(num_rounds: int) -> Run:
        return run(tmp_path_factory.mktemp("whole"), num_rounds=num_rounds)

    return make


def copied(made: Run, folder: Path) -> Run:
    """A copy of a run, to be damaged or gone on with."""
    return Run(shutil.copytree(made.path, folder / "run"))


@pytest.mark.parametrize(
    ("method", "after", "fraction"),
    only(
        product(["flatland", "fedavg"], [False, True], [1.0, 0.5]), ("flatland", True, 0.5).__eq__
    ),
)
def test_interrupted_anywhere_and_resumed(method, after, fraction, tmp_path):
    settings = {
        "method": method,
        "clients": 3,
        "num_rounds": 3,
        "fraction_train": fraction,
        "evaluate_every": 2,
    }
    recorder = Recorder()
    whole = run(tmp_path, "whole", intercept=recorder, **settings)
    messages = len(recorder.pairs)
    assert messages >= 3 + 3 * (2 if fraction == 0.5 else 3)
    # Of every two messages the one is stopped before, and the other after its answer.
    step = 1 if after and fraction == 1.0 else 2
    for at in range(int(after) % step, messages, step):
        name = f"stopped-{at}"
        interrupted(tmp_path, at, after, name=name, **settings)
        stopped = Run(tmp_path / name).summary
        assert (stopped["status"], stopped["error"]) == ("failed", "interrupted")
        assert run(tmp_path, name, resume=True, **settings).figures == whole.figures, (
            f"stopped at message {at}"
        )


KILLED = """
import json, os, signal, sys
from curvfed.deployments.inprocess import simulate
left = int(sys.argv[2])
def intercept(request, handle):
    global left
    left -= request.content["header"]["phase"] == "train"
    reply = handle(request)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return reply
settings = {"embedding-dim": 8, "num-rounds": 4, "results-dir": sys.argv[1], "run-name": "run"}
settings |= json.loads(sys.argv[3])
simulate(settings, 3, intercept=intercept)
"""


@pytest.mark.parametrize(
    "settings",
    only(
        [
            {"method": "flatland", "aggregation": "fedopt"},  # states of clients and of the server
            {"method": "fedavg", "aggregation": "flower:FedAdam"},
            {"method": "fedavg", "aggregation": "flower:FedAvgM", "flower.server-momentum": 0.9},
        ],
        lambda settings: settings["method"] == "flatland",
    ),
)
def test_killed_and_resumed(settings, tmp_path):
    """A process that gets no chance to tidy up; another one goes on."""
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "killed"), "7", json.dumps(settings)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    folder = tmp_path / "killed" / "run"
    assert not (folder / "summary.json").exists()
    assert (folder / "checkpoint" / "server" / "00000002.safetensors").exists()
    settings = settings | {"num_rounds": 4}
    whole = run(tmp_path / "whole", **settings)
    assert run(tmp_path / "killed", resume=True, **settings).figures == whole.figures


def test_sigterm_ends_a_run_as_ctrl_c_does(tmp_path):
    settings = {
        "embedding-dim": 8,
        "num-rounds": 100_000,
        "num-supernodes": 3,
        "results-dir": tmp_path,
        "run-name": "run",
    }
    command = [
        sys.executable,
        "-m",
        "curvfed",
        "simulate",
        "report=false",
        *(f"{key}={value}" for key, value in settings.items()),
    ]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"HOME": str(tmp_path)}, stdout=subprocess.PIPE
    ) as process:
        deadline = time.monotonic() + 600
        while not (tmp_path / "run" / "rounds.csv").exists() and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        notes = process.communicate(timeout=600)[0].decode()
    assert process.returncode == 130
    assert "The last checkpoint" in notes
    summary = Run(tmp_path / "run").summary
    assert (summary["status"], summary["error"]) == ("failed", "interrupted")


def test_a_torn_checkpoint_costs_one_round_and_no_more(whole, tmp_path):
    settings = {"num_rounds": 4}
    interrupted(tmp_path, 6 + 3 * 3, False, **settings)
    checkpoints = tmp_path / "run" / "checkpoint" / "server"
    newest = checkpoints / "00000003.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    recorder = Recorder()
    assert run(tmp_path, resume=True, intercept=recorder, **settings).figures == whole(4).figures
    assert [asked["header"]["round"] for asked in recorder.requests("train")] == [3, 3, 3, 4, 4, 4]
    assert {asked["header"]["stamp"] for asked in recorder.requests("train")[:3]} == {2}


def test_lines_of_rounds_that_never_ended_are_removed(whole, tmp_path):
    settings = {"num_rounds": 3}
    interrupted(tmp_path, 6 + 2 * 3, False, **settings)
    for name in ("rounds.csv", "clients.csv"):
        with (tmp_path / "run" / name).open("a") as file:
            file.write("3,train,0,1\n3,tra")
    assert run(tmp_path, resume=True, **settings).figures == whole(3).figures


@pytest.mark.parametrize("content", ["", "round,pha"])
def test_tables_that_were_just_begun_are_made_anew(content, whole, tmp_path):
    interrupted(tmp_path, 6, True)
    for name in ("rounds.csv", "clients.csv"):
        (tmp_path / "run" / name).write_text(content)
    assert run(tmp_path, resume=True).figures == whole(2).figures


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".lock" not in path.name
    }


@pytest.mark.parametrize(
    ("settings", "key", "text"),
    [
        ({"clients": 5}, "changed-data", "partitions"),
        ({"data_dir": "nowhere", "dataset": "cora"}, "changed-key", 'dataset = "cora"'),
        ({"min_replies": 9}, "changed-key", "min-replies = 9"),
        ({"seed": 1}, "changed-key", "seed = 1"),
    ],
)
def test_a_resume_that_cannot_begin_changes_nothing(settings, key, text, tmp_path):
    digits = {
        "method": "fedavg",
        "dataset": "digits",
        "images__train_subset": 120,
        "images__test_subset": 50,
    }
    first = run(tmp_path, num_rounds=2, **digits)
    before = files_of(first.path)
    with refuses(key, text, error=ConfigError):
        run(tmp_path, resume=True, num_rounds=4, **digits | settings)
    assert files_of(first.path) == before
    (refused,) = tmp_path.glob("run-refused-*")
    assert text in Run(refused).summary["error"]


def retell(folder: Path, **changes: object) -> None:
    """Change what the checkpoints tell beside their arrays."""
    store = Store(folder / "checkpoint" / "server")
    for stamp in store.stamps():
        arrays, about = store.load(stamp)
        store.save(stamp, arrays, about | changes, base=stamp - 1)


@pytest.mark.parametrize(
    ("damage", "key", "fragment"),
    [
        (
            lambda folder: [
                path.write_bytes(b"torn") for path in folder.glob("checkpoint/server/*")
            ],
            "unreadable-checkpoint",
            "checkpoint",
        ),
        (
            lambda folder: shutil.rmtree(folder / "checkpoint" / "server"),
            "lost-checkpoint",
            "rounds.csv",
        ),
        (lambda folder: (folder / "rounds.csv").write_text("x,y\n"), "other-columns", "rounds.csv"),
        (
            lambda folder: (folder / "config.toml").write_text("method ="),
            "unreadable-config",
            "config.toml",
        ),
        (
            lambda folder: os.mkfifo(folder / "checkpoint" / "server" / "00000003.safetensors-"),
            "unreadable-config",
            "00000003.safetensors-",
        ),
        (lambda folder: (folder / "rounds.csv").unlink(), "missing-table", "up to 3"),
        (lambda folder: retell(folder, later=1), "damaged-run", "TypeError"),
        (
            lambda folder: retell(folder, before={"facts": 1, "digests": {}}),
            "damaged-run",
            "AttributeError",
        ),
        (lambda folder: retell(folder, stamps=3), "damaged-run", "AttributeError"),
    ],
    ids=["torn", "lost", "columns", "config", "pipe", "rows", "later", "facts", "stamps"],
)
def test_what_is_damaged_is_refused_and_left_alone(damage, key, fragment, whole, tmp_path):
    first = copied(whole(3), tmp_path)
    damage(first.path)
    before = files_of(first.path)
    with refuses(key, fragment, error=ConfigError):
        run(tmp_path, resume=True, num_rounds=4)
    assert files_of(first.path) == before


def test_a_damaged_record_of_the_clients_is_written_again(whole, tmp_path):
    first = copied(whole(2), tmp_path)
    record = first.path / "clients.json"
    content = record.read_bytes()
    record.write_bytes(content[:200])
    assert run(tmp_path, resume=True, num_rounds=3).summary["rounds"] == 3
    assert record.read_bytes() == content


def test_a_renamed_folder_with_state_of_clients_is_refused_and_left_alone(tmp_path):
    first = run(tmp_path, "first", method="flatland", num_rounds=2)
    renamed = first.path.rename(tmp_path / "second")
    before = files_of(renamed)
    with refuses("renamed-run", "second", 'of the run "first"', error=ConfigError):
        run(tmp_path, "second", method="flatland", resume=True, num_rounds=3)
    assert files_of(renamed) == before
    renamed.rename(first.path)
    more = run(tmp_path, "first", method="flatland", resume=True, num_rounds=3)
    assert more.summary["rounds"] == 3


FLOWER = """
import os, signal, sys, threading, time
from curvfed.deployments.inprocess import simulate

def killed_soon(signum, frame):
    threading.Timer(0.1, os._exit, [7]).start()
    time.sleep(60)

def stop(request, handle):
    if request.content["header"]["round"] == 2:
        signal.raise_signal(signal.SIGINT)
    return handle(request)

signal.signal(signal.SIGINT, killed_soon)
simulate({"results-dir": sys.argv[1], "run-name": "run", "num-rounds": 3, "embedding-dim": 8}, 2, intercept=stop)
"""
"""A run whose process has a handler of signals that ends it soon, as Flower's `flwr stop`."""


@pytest.mark.long
def test_a_run_that_flower_stops_leaves_a_summary_and_a_report(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FLOWER, tmp_path],
        cwd=ROOT,
        env=os.environ | {"HOME": str(tmp_path)},
        timeout=600,
    )
    assert done.returncode == 7
    summary = Run(tmp_path / "run").summary
    assert (summary["status"], summary["error"], summary["rounds"]) == ("failed", "interrupted", 1)
    assert (tmp_path / "run" / "report.html").exists()


def test_a_run_that_is_over_goes_on_with_more_rounds(whole, tmp_path):
    copied(whole(2), tmp_path)
    assert run(tmp_path, resume=True, num_rounds=4).figures == whole(4).figures


def test_a_run_under_secure_sums_goes_on_with_another_patience(tmp_path):
    masked = {"method": "fedavg", "clients": 5, "secure_sum": True}
    run(tmp_path, num_rounds=1, secure__patience=5, **masked)
    resumed = run(tmp_path, num_rounds=2, secure__patience=50, resume=True, **masked)
    assert resumed.summary["status"] == "completed"


def test_an_existing_name_is_refused_and_left_alone(whole, tmp_path):
    first = copied(whole(2), tmp_path)
    with refuses("run-exists", 'run-name = "run"', "resume = true", error=ConfigError):
        run(tmp_path, seed=1)
    assert Run(first.path).figures == first.figures
    (refused,) = tmp_path.glob("run-refused-*")
    assert Run(refused).summary["status"] == "failed"


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_without_enough_clients_leaves_its_name_free(resume, tmp_path):
    with refuses("too-few-clients", "needed are 4", error=FederationError):
        run(tmp_path, min_replies=4)
    (tmp_path / "run" / "report.html").touch()  # which these tests do not draw
    assert run(tmp_path, resume=resume).summary["status"] == "completed"


def test_a_run_on_a_file_goes_on_from_another_working_folder(tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    data = tmp_path / "here" / "data.pt"
    torch.save(user_fields(seed=0), data)
    monkeypatch.chdir(tmp_path / "here")
    first = run(tmp_path, dataset="./data.pt", num_rounds=1)
    assert f'dataset = "{data}"' in (first.path / "config.toml").read_text()
    monkeypatch.chdir(tmp_path / "there")
    again = run(tmp_path, dataset="../here/data.pt", num_rounds=2, resume=True)
    assert again.summary["status"] == "completed"
    shutil.copy(data, tmp_path / "there")
    with refuses("changed-key", 'dataset = "./data.pt"', error=ConfigError):
        run(tmp_path, dataset="./data.pt", num_rounds=3, resume=True)


def own_graphs(folder: Path) -> list[dict]:
    """Three real nodes with graphs of their own."""
    return real_nodes(folder, [user_fields(seed=index) for index in range(3)])


def test_other_data_are_refused_by_partition(tmp_path):
    nodes = own_graphs(tmp_path / "nodes")
    interrupted(tmp_path, 9, True, nodes=nodes)
    torch.save(user_fields(seed=77), tmp_path / "nodes" / "1.pt")
    with refuses("changed-data", "partitions 1", error=ConfigError):
        run(tmp_path, nodes=nodes, resume=True)


def test_real_nodes_resume_from_their_own_disks(tmp_path):
    settings = {"num_rounds": 4, "fraction_train": 0.67}
    whole = run(tmp_path / "whole", nodes=own_graphs(tmp_path / "a"), **settings)
    nodes = own_graphs(tmp_path / "b")
    interrupted(tmp_path, 11, True, nodes=nodes, **settings)
    assert not (tmp_path / "run" / "checkpoint" / "clients").exists()
    assert run(tmp_path, nodes=nodes, resume=True, **settings).figures == whole.figures


def test_a_node_that_does_not_come_back_is_waited_for_and_then_done_without(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("curvfed.server_app.federation.NODE_WAIT", 0.6)
    monkeypatch.setattr("curvfed.server_app.federation.nodes_can_join", lambda grid: True)
    caplog.set_level("INFO", "curvfed")
    nodes = own_graphs(tmp_path / "nodes")
    interrupted(tmp_path, 12, True, nodes=nodes, num_rounds=3)
    assert "waiting" not in caplog.text
    result = run(tmp_path, nodes=nodes[:2], resume=True, num_rounds=3)
    assert (result.summary["status"], result.summary["num_clients"], result.summary["rounds"]) == (
        "completed",
        2,
        3,
    )
    assert "2 nodes are connected; waiting up to 0.6 s for 3" in caplog.text
    last = [float(row["score"]) for row in result.clients if row["round"] == "3"]
    assert result.summary["personal_accuracy_mean"] == pytest.approx(sum(last) / 2)
    assert result.summary["metrics"]["clients_left_out"] == 0
    notes = (
        r"2 of 2 nodes can take part, needed are 3\. partition-id 2 took part before and is"
        r" missing: start its node"
    )
    nodes = own_graphs(tmp_path / "others")
    interrupted(tmp_path / "all", 12, True, nodes=nodes, num_rounds=3, min_replies=3)
    with pytest.raises(FederationError, match=notes):
        run(tmp_path / "all", nodes=nodes[:2], resume=True, num_rounds=3, min_replies=3)


def test_a_client_that_has_lost_nothing_but_moments_goes_on_with_fresh_ones(tmp_path, caplog):
    nodes, keys = (
        own_graphs(tmp_path / "nodes"),
        {"method": "fedavg", "optimizer_state": "kept", "num_rounds": 3},
    )
    interrupted(tmp_path, 9, True, nodes=nodes, **keys)
    for path in (tmp_path / "nodes" / "state1").rglob("0*.safetensors"):
        path.write_bytes(b"torn")
    result = run(tmp_path, nodes=nodes, resume=True, **keys)
    assert not [row for row in result.clients if row["dropped"]]
    notes = [
        record.getMessage() for record in caplog.records if "start afresh" in record.getMessage()
    ]
    assert len(notes) == 1
    assert notes[0].startswith("partition 1: its optimiser's moments are lost")


def test_state_of_another_client_is_not_taken_up(tmp_path):
    nodes = own_graphs(tmp_path / "nodes")
    interrupted(tmp_path, 12, False, nodes=nodes, num_rounds=3)
    theirs, mine = (
        tmp_path / "nodes" / f"state{p}" / "run" / f"{p:05d}" / "00000002.safetensors"
        for p in (0, 1)
    )
    shutil.copy(theirs, mine)
    result = run(tmp_path, nodes=nodes, resume=True, num_rounds=3)
    reasons = {
        row["partition"]: row["dropped"]
        for row in result.clients
        if row["round"] == "3" and row["phase"] == "train"
    }
    assert (reasons["0"], reasons["2"]) == ("", "")
    assert (
        reasons["1"]
        == "the state of round 2 in state-path/run/00001 belongs to another partition and data:"
        " give the run another run-name, or this node another state-path"
    )


@pytest.mark.usefixtures("clock")
def test_a_client_whose_reply_was_lost_goes_back_to_the_state_the_server_knows(tmp_path):
    """It had trained and written its state; the server never heard of it."""

    def lose(request, handle):
        handle(request)
        return

    recorder = Recorder()
    fault = Fault(1, lose, round=2)

    def both(request, handle):
        if phase_of(request.content) != "train":
            return fault(request, handle)
        return fault(request, lambda message: recorder(message, handle))

    result = run(tmp_path, num_rounds=3, intercept=both)
    stamps = {
        (asked["header"]["round"], reply["header"]["partition"]): asked["header"]["stamp"]
        for asked, reply in recorder.pairs
    }
    assert stamps == {
        (1, 0): 0,
        (1, 1): 0,
        (1, 2): 0,
        (2, 0): 1,
        (2, 1): 1,
        (2, 2): 1,
        (3, 0): 2,
        (3, 1): 1,
        (3, 2): 2,
    }
    steps = {p: int(result.personal(p)["optimizer/step/k"]) for p in range(3)}
    assert steps == {0: 3, 1: 2, 2: 3}


def test_state_of_another_run_is_not_taken_up(tmp_path):
    nodes = own_graphs(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes)
    fresh = run(tmp_path, "second", nodes=nodes)
    for node in nodes:
        names = sorted(
            entry.name for entry in Path(node["state-path"]).iterdir() if entry.suffix != ".jsonl"
        )
        assert names == ["digest.key", "first", "second"]
    assert (
        fresh.figures["model"]
        == run(tmp_path, "third", nodes=own_graphs(tmp_path / "other")).figures["model"]
    )


def test_fewer_rounds_than_are_done_are_refused_and_nothing_is_lost(whole, tmp_path):
    config = copied(whole(3), tmp_path).path / "config.toml"
    kept = config.read_bytes()
    with refuses("too-few-rounds", "num-rounds = 2", "3 or more", error=ConfigError):
        run(tmp_path, resume=True, num_rounds=2)
    # A command refuses it before a run is made, which would leave a folder with its failure.
    settings = read_settings(config, written_by_run=True)
    settings |= {"resume": True, "results-dir": str(tmp_path), "num-rounds": 2}
    with refuses("too-few-rounds", "num-rounds = 2", "3 or more", error=ConfigError):
        check_name(parse(settings))
    assert config.read_bytes() == kept


def test_a_resume_without_a_run_does_not_take_its_name(tmp_path):
    with refuses("no-run", "resume", error=ConfigError):
        run(tmp_path, resume=True)
    assert not (tmp_path / "run").exists()
    assert run(tmp_path).summary["status"] == "completed"


def test_a_resume_that_is_interrupted_before_it_begins_changes_nothing(whole, tmp_path):
    first = copied(whole(2), tmp_path)
    before = files_of(first.path)
    interrupted(tmp_path, 1, False, num_rounds=4, resume=True)
    assert files_of(first.path) == before


@pytest.mark.parametrize(
    "changes", [{"method": "apple"}, {"method": "fedsage+"}, {"schedule": "cosine"}], ids=str
)
def test_a_schedule_that_goes_by_the_number_of_rounds_keeps_it(changes, tmp_path):
    run(tmp_path, num_rounds=2, **changes)
    with refuses("changed-key", "num-rounds = 9", 2, error=ConfigError):
        run(tmp_path, resume=True, num_rounds=9, **changes)

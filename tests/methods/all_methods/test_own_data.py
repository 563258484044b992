"""Every method at its defaults on own data: at real nodes with a data-path, and in Python."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_fixtures import user_fields, user_graphs
from hull_nodes import blobs
from image_fixtures import made, write_classes
from tiers import only

import curvfed
from curvfed.client_app.clients_in_memory import forget_all
from curvfed.deployments.inprocess import simulate
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.graphs.data.graph_spec import GraphSpec

NODES = 3
BRIEF = {"num-rounds": 1}
TASKS = ("nodes", "graphs", "images", "points")
CASES = [
    (name, task)
    for name, row in METHODS.items()
    for task in TASKS
    if task in row.tasks and name != "pca"
]
"""All but `pca`, which has no default genes."""


def graph(num_nodes: int) -> dict[str, object]:
    """A ring with chords, 2 classes by halves."""
    if num_nodes > 3:
        return user_fields(num_nodes)
    return {
        "x": torch.eye(3, 8),
        "edge_index": torch.tensor([[0, 1], [1, 2]]),
        "y": torch.tensor([0, 1, 0]),
    }


def write_nodes(path: Path, number: int) -> Path:
    torch.save(graph((129, 128, 500)[number % 3]), path.with_suffix(".pt"))
    return path.with_suffix(".pt")


def write_graphs(path: Path, number: int) -> Path:
    torch.save(user_graphs((12, 129, 140)[number % 3], number), path.with_suffix(".pt"))
    return path.with_suffix(".pt")


def write_images(path: Path, number: int) -> Path:
    write_classes(path, {"cat": 20 + number, "dog": 20}, seed=number)
    return path


def write_points(path: Path, number: int) -> Path:
    np.savez(path.with_suffix(".npz"), **blobs([1, 2, 3], per_class=20, seed=number))
    return path.with_suffix(".npz")


WRITERS: dict[str, Callable[[Path, int], Path]] = {
    "nodes": write_nodes,
    "graphs": write_graphs,
    "images": write_images,
    "points": write_points,
}


def real_nodes(folder: Path, paths: list[Path]) -> list[dict[str, Any]]:
    """Real nodes with these data; their policy lets two of them sum."""
    policy = folder / "policy.toml"
    policy.write_text("[sums]\ncontributors = 2\nothers-examples = 0\n")
    return [
        {
            "partition-id": number,
            "data-path": str(path),
            "state-path": str(folder / f"state{number}"),
            "policy": str(policy),
        }
        for number, path in enumerate(paths)
    ]


def must_share(method: str) -> bool:
    """Whether the method demands figures about the data."""
    return method == "ccvr" or learner_class(METHODS[method]).reports_statistics


def check_completed(run: curvfed.Run, clients: int) -> None:
    """The run has all clients to its end."""
    assert run.summary["status"] == "completed"
    assert (run.summary["num_clients"], run.summary["absences"]) == (clients, [])


QUICK = {("flatland", "nodes"), ("gcfl", "graphs"), ("ccvr", "images"), ("hull", "points")}


# How data are read depends on their task alone.
@pytest.mark.parametrize(
    ("method", "task"), only(CASES, lambda case: case[0] == "fedavg" or case in QUICK)
)
def test_at_real_nodes(tmp_path, method, task):
    nodes = real_nodes(
        tmp_path, [WRITERS[task](tmp_path / f"data{number}", number) for number in range(NODES)]
    )
    forget_all()
    settings = {"method": method, "results-dir": str(tmp_path), "run-name": "run"} | BRIEF
    run = curvfed.load(simulate(settings | {"share-statistics": must_share(method)}, NODES, nodes))
    check_completed(run, NODES)


MEMORY: dict[str, Callable[[int], object]] = {
    "nodes": lambda number: graph((3, 129, 500)[number]),
    "graphs": lambda number: user_graphs((12, 129, 140)[number], number),
    "images": lambda number: made(40, (8, 8), 2, number),
    "points": lambda number: (
        blobs([1, 2], 20, number)["x_train"],
        blobs([1, 2], 20, number)["y_train"],
    ),
}


@pytest.mark.parametrize(
    ("method", "task"), only(CASES, lambda case: case[0] in ("fedavg", "hull"))
)
def test_in_python(tmp_path, method, task):
    """Data in memory of two clients, and of a third in a file."""
    data = [MEMORY[task](0), MEMORY[task](1), WRITERS[task](tmp_path / "own", 2)]
    keys = {"share_statistics": must_share(method), "results_dir": tmp_path, "num_rounds": 1}
    keys |= {"quiet": True, "report": False}
    check_completed(curvfed.simulate(method, data=data, **keys), NODES)


@pytest.mark.parametrize("method", ["flatland", "fedavg"])
@pytest.mark.parametrize("num_nodes", [3, 129])
def test_graphs_of_every_size(tmp_path, method, num_nodes):
    """The same file at real nodes, as a list of paths, and in memory gives the same figures: it has
    a split of its own, else each node would draw one."""
    path = tmp_path / "graph.pt"
    places = torch.arange(num_nodes) % 3
    masks = {f"{role}_mask": places == part for part, role in enumerate(("train", "val", "test"))}
    fields = graph(num_nodes) | masks
    torch.save(fields, path)
    settings = {"method": method, "results-dir": str(tmp_path), "run-name": "cluster"} | BRIEF
    forget_all()
    runs = [curvfed.load(simulate(settings, 2, real_nodes(tmp_path, [path, path])))]
    keys = {"results_dir": tmp_path, "quiet": True, "report": False}
    for data in ([path, path], [fields] * 2):
        runs.append(curvfed.simulate(method, data=data, num_rounds=1, **keys))
    figures = [
        (run.summary["status"], run.summary["personal_accuracy_mean"], run.summary["absences"])
        for run in runs
    ]
    assert figures == [figures[0]] * 3
    assert figures[0][0] == "completed"


@pytest.mark.parametrize(
    "method", [name for name, row in METHODS.items() if {"nodes", "graphs"} <= set(row.tasks)]
)
def test_settings_that_shape_data_are_the_same_for_nodes_and_for_graphs(method):
    """A `.pt` file is read before it is known which of both it holds."""
    config = parse({"method": method})
    nodes, graphs = (vars(resolve_defaults(config, task)) for task in ("nodes", "graphs"))
    shaping = [name for name in GraphSpec.__dataclass_fields__ if name in nodes]
    # of no account for graphs
    assert {name for name in shaping if nodes[name] != graphs[name]} <= {"batch_size"}


def test_nodes_that_share_their_state_are_warned_about(tmp_path, caplog):
    nodes = []
    for site, state in enumerate(("one", "other", "one")):
        write_classes(tmp_path / f"data{site}", {"a": 12, "b": 12}, seed=site)
        paths = {"data-path": tmp_path / f"data{site}", "state-path": tmp_path / state}
        nodes.append({"partition-id": site} | {key: str(path) for key, path in paths.items()})
    settings = {"method": "fedavg", "dataset": "own", "num-rounds": 0, "report": False}
    simulate(settings | {"results-dir": str(tmp_path / "results")}, 3, nodes)
    (text,) = [text for text in caplog.messages if text.startswith("state-path: ")]
    assert text.startswith(f"state-path: {tmp_path / 'one'} is that of the nodes with partition-id")
    assert " 0, 2; " in text

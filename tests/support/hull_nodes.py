"""Small whole one-shot runs, files of points for real nodes, and what must come of them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import app_runs
import numpy as np
from app_runs import Handle, Run
from flwr.app import Message
from policies import with_policy

from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults, resolve_defaults
from curvfed.tasks.points.dataset import PointDataset

Points = tuple[np.ndarray, np.ndarray]
Hulls = list[list[tuple[int, ...]]]

QUICK = {
    "method": "hull",
    "dataset": "uniform",
    "points__num": 300,
    "hull__c": 1000.0,
    "hull__classifier": "svm",
    "hull__cap": 128,
    "secure__min_holders": 1,  # nothing is counted before the sum
}
PHASES = ("measure", "keys", "agree", "hulls", "evaluate")
"""After the meeting, in order."""


def hull_run(folder: Path, name: str = "run", **settings: Any) -> Run:
    """A run on a few uniform points; arguments as of `app_runs.run`."""
    return app_runs.run(folder, name, **QUICK | settings)


def parts_of(clients: int, **settings: Any) -> list[Points]:
    """Training points and labels of the clients of `hull_run` with these settings."""
    keys = app_runs.dotted_keys(QUICK | settings)
    config = resolve_defaults(parse(defaults() | keys), "points")
    dataset = PointDataset.of_run(config)
    data = [dataset.client(partition, clients) for partition in range(clients)]
    return [(one.train_points, one.train_labels) for one in data]


def expected(
    parts: Sequence[Points],
    epsilon: float,
    curvature: float = -1.0,
    radius: float = 0.999,
    equal_area: bool = False,
) -> Hulls:
    """Hulls of quantised hulls in the order in which the server puts them."""
    quantizer = PoincareQuantizer(epsilon, radius / np.sqrt(-curvature), curvature, equal_area)
    clients = []
    for points, labels in parts:
        hulls = []
        for one in np.unique(labels):
            mine = points[labels == one]
            bins = np.unique(quantizer.encode(mine[convex_hull(mine, curvature)]))
            corners = bins[convex_hull(quantizer.decode(bins), curvature)]
            hulls.append(tuple(sorted(corners.tolist())))
        clients.append(sorted(hulls))
    return sorted(hulls for hulls in clients if hulls)


def decoded(run: Run) -> Hulls:
    """The hulls in `hulls.npz`, in the same order."""
    stored = arrays_of(run)
    rows = np.stack([stored["client"], stored["hull"]], axis=1)
    clients: dict[int, list[tuple[int, ...]]] = {}
    for client, hull in np.unique(rows, axis=0).tolist():
        chosen = (rows == (client, hull)).all(axis=1)
        clients.setdefault(client, []).append(tuple(stored["bins"][chosen].tolist()))
    return list(clients.values())


def arrays_of(run: Run) -> dict[str, np.ndarray]:
    """`hulls.npz`."""
    with np.load(run.path / "hulls.npz", allow_pickle=False) as file:
        return dict(file)


def figures(run: Run) -> dict[str, Any]:
    """Everything that equal runs have in common."""
    summary = {key: value for key, value in run.figures["summary"].items() if key != "metrics"}
    metrics = {
        key: value
        for key, value in run.summary["metrics"].items()
        if not key.startswith("seconds_")
    }
    arrays = {name: array.tolist() for name, array in arrays_of(run).items()}
    return run.figures | {"summary": summary, "metrics": metrics, "arrays": arrays}


def nodes_of(
    folder: Path, parts: Sequence[Mapping[str, Any] | str], **node_config: Any
) -> list[dict[str, Any]]:
    """Configurations of real nodes with the arrays of an .npz or the text of a .csv each, and disks
    of their own.

    Their policy lets two of them sum a few points, for the tests of what is read and summed.
    """
    folder.mkdir(exist_ok=True)
    policy = folder / "policy.toml"
    policy.write_text("[sums]\ncontributors = 2\nothers-examples = 0\n")
    nodes = []
    for index, part in enumerate(parts):
        path = folder / f"{index}.{'csv' if isinstance(part, str) else 'npz'}"
        if isinstance(part, str):
            path.write_text(part)
        else:
            np.savez(path, **part)
        own = {
            "data-path": str(path),
            "state-path": str(folder / f"state{index}"),
            "policy": str(policy),
        }
        nodes.append({"partition-id": index} | own | node_config)
    return nodes


def blobs(
    classes: Sequence[Any], per_class: int = 12, seed: int = 0, test: int = 4, radius: float = 1.0
) -> dict:
    """The arrays of an .npz: each class round a place that its name decides."""
    rng, turns = np.random.default_rng(seed), [2 * np.pi * int(str(one)[-1]) / 8 for one in classes]
    centres = 0.6 * radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    labels = np.repeat(np.arange(len(classes)), per_class + test)
    points = centres[labels] + 0.15 * radius * rng.uniform(-1, 1, (len(labels), 2))
    tested = np.tile(np.arange(per_class + test) >= per_class, len(classes))
    names = np.array(list(classes))[labels]
    return {
        "x_train": points[~tested],
        "y_train": names[~tested],
        "x_test": points[tested],
        "y_test": names[tested],
    }


def nodes_with_a_single_cell(folder: Path) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Three real nodes; the second alone has class 5, with a single cell; and that cell."""
    rare = blobs("02", seed=1)
    cell = np.array([[0.31, -0.42]])
    rare["x_train"] = np.concatenate([rare["x_train"], cell])
    rare["y_train"] = np.append(rare["y_train"], "5")
    return nodes_of(folder, [blobs("02", seed=7), rare, blobs("02", seed=8)]), cell[0]


def open_nodes(folder: Path, parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Nodes whose classes leave them also where one node alone has them."""
    policy = "[sums]\ncontributors = 2\nothers-examples = 0\nmin-holders = 1\n"
    return with_policy(folder, nodes_of(folder, parts), policy)


def switched_nodes(folder: Path) -> list[dict[str, Any]]:
    """Four nodes: one alone has class 4, another has switched the names 0 and 2."""
    parts = [blobs("024", seed=1), blobs("02", seed=2), blobs("02", seed=3), blobs("02", seed=4)]
    switched = np.array(["2", "0"])
    for name in ("y_train", "y_test"):
        parts[3][name] = switched[np.searchsorted(["0", "2"], parts[3][name])]
    return open_nodes(folder, parts)


def training(part: Mapping[str, Any]) -> Points:
    """What `expected` wants of the arrays of an .npz."""
    return np.asarray(part["x_train"]), np.unique(part["y_train"], return_inverse=True)[1]


Intercept = Callable[[Message, Handle], Message | None]


def chain(*intercepts: Intercept) -> Intercept:
    """The first sees the request first and the reply last."""

    def intercept(request: Message, handle: Handle) -> Message | None:
        for inner in reversed(intercepts[1:]):
            handle = _bound(inner, handle)
        return intercepts[0](request, handle)

    return intercept


def _bound(inner: Intercept, handle: Handle) -> Handle:
    return lambda request: inner(request, handle)  # type: ignore[return-value]


class Silent:
    """Clients that vanish at a phase: they get its message or not, and never answer again."""

    def __init__(self, gone: Mapping[int, str], works: bool = False) -> None:
        self.gone, self.works = gone, works
        self._partitions: dict[int, int] = {}
        self._dead: set[int] = set()

    def __call__(self, request: Message, handle: Handle) -> Message | None:
        node, phase = (
            request.metadata.dst_node_id,
            request.content.config_records["header"]["phase"],
        )
        if phase == "describe":
            self._partitions[node] = app_runs.partition_of(handle(request).content)
        partition = self._partitions[node]
        if partition in self._dead:
            return None
        if self.gone.get(partition) == phase:
            self._dead.add(partition)
            if self.works:
                handle(request)
            return None
        return handle(request)

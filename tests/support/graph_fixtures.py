"""Small data sets in the loaders' own raw layouts, with the truth about them."""

import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

PLANTED_NODES = 640
PLANTED_MAIN = 600
PLANTED_CLASSES = 3
GRID_SIDE = 20
GRID_SPLITS = 10


@dataclass(frozen=True, eq=False)
class Planted:
    """A graph that is known.

    features (N, F) of 0 and 1, no two rows alike; edges the set of (i, j), i < j; labels (N,); main
    the nodes of the largest component.
    """

    features: NDArray[np.float32]
    edges: frozenset[tuple[int, int]]
    labels: NDArray[np.int64]
    main: frozenset[int]


def planted(seed: int = 0) -> Planted:
    """Three communities in one component of 600 nodes, another component of 30, and 10 isolated
    nodes, shuffled.

    A class is a community; 16 of the 48 words are its own, and the last 10 features write the
    node's number in binary.
    """
    rng = np.random.default_rng(seed)
    classes = np.arange(PLANTED_NODES) * PLANTED_CLASSES // PLANTED_MAIN % PLANTED_CLASSES
    pairs = {(i, i + 1) for i in range(PLANTED_MAIN - 1)} | {
        (i, i + 1) for i in range(PLANTED_MAIN, PLANTED_MAIN + 29)
    }
    while len(pairs) < 1600:
        i, j = sorted(rng.integers(PLANTED_MAIN, size=2).tolist())
        if i < j and (classes[i] == classes[j] or rng.random() < 0.1):
            pairs.add((i, j))
    words = np.arange(48) // 16 == classes[:, None]
    features = rng.random(words.shape) < np.where(words, 0.2, 0.05)
    numbers = np.arange(PLANTED_NODES)[:, None] >> np.arange(10) & 1
    features = np.concatenate([features, numbers], axis=1).astype(np.float32)

    place = rng.permutation(PLANTED_NODES)  # the number that a node gets in the file
    order = np.argsort(place)
    edges = frozenset((min(place[i], place[j]), max(place[i], place[j])) for i, j in pairs)
    return Planted(
        features=features[order],
        edges=frozenset((int(i), int(j)) for i, j in edges),
        labels=classes[order].astype(np.int64),
        main=frozenset(place[:PLANTED_MAIN].tolist()),
    )


def write_planetoid(
    root: Path, name: str = "Cora", seed: int = 0, folder: str = "planetoid"
) -> Planted:
    """Write `planted(seed)` as root/folder/name/raw/ind.*.

    As in the originals there are self-loops and doubled edges, and CiteSeer's test index leaves
    isolated nodes out.
    """
    from scipy.sparse import csr_matrix

    graph = planted(seed)
    raw = root / folder / name / "raw"
    raw.mkdir(parents=True)
    num_train, num_all = 60, PLANTED_NODES - 40
    one_hot = np.eye(PLANTED_CLASSES, dtype=np.int32)[graph.labels]
    tested = np.arange(num_all, PLANTED_NODES)
    if name == "CiteSeer":
        tested = np.intersect1d(tested, np.array(sorted(graph.edges)))
    test_index = np.random.default_rng(seed + 1).permutation(tested)
    neighbours: dict[int, list[int]] = {node: [] for node in range(PLANTED_NODES)}
    for i, j in sorted(graph.edges):
        neighbours[i] += [j, j] if i % 50 == 0 else [j]
        if j % 7:  # otherwise the edge stands in one direction alone
            neighbours[j].append(i)
    neighbours[3].append(3)
    parts = {
        "x": csr_matrix(graph.features[:num_train]),
        "allx": csr_matrix(graph.features[:num_all]),
        "tx": csr_matrix(graph.features[test_index]),
        "y": one_hot[:num_train],
        "ally": one_hot[:num_all],
        "ty": one_hot[test_index],
        "graph": neighbours,
    }
    for part, content in parts.items():
        (raw / f"ind.{name.lower()}.{part}").write_bytes(pickle.dumps(content))
    (raw / f"ind.{name.lower()}.test.index").write_text(
        "".join(f"{index}\n" for index in test_index)
    )
    return graph


def write_minesweeper(
    root: Path, seed: int = 0, folder: str = "heterophilous"
) -> dict[str, NDArray]:
    """Write a 20 x 20 grid as root/folder/minesweeper/raw/minesweeper.npz; returns its arrays.

    As in the original: a node has up to eight neighbours, a fifth of the nodes are mines, features
    are the one-hot number of mines around (hidden at half of the nodes), 10 splits of 50/25/25.
    """
    rng = np.random.default_rng(seed)
    numbers = np.arange(GRID_SIDE**2).reshape(GRID_SIDE, GRID_SIDE)
    shifted = [
        (numbers[:, :-1], numbers[:, 1:]),
        (numbers[:-1], numbers[1:]),
        (numbers[:-1, :-1], numbers[1:, 1:]),
        (numbers[:-1, 1:], numbers[1:, :-1]),
    ]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in shifted])
    labels = (rng.random(GRID_SIDE**2) < 0.2).astype(np.int64)
    around = np.bincount(edges[:, 0], labels[edges[:, 1]], GRID_SIDE**2)
    around += np.bincount(edges[:, 1], labels[edges[:, 0]], GRID_SIDE**2)
    hidden = rng.random(GRID_SIDE**2) < 0.5
    category = np.where(hidden, 6, np.minimum(around.astype(np.int64), 5))
    role = np.stack([rng.permutation(np.arange(GRID_SIDE**2) % 4) for _ in range(GRID_SPLITS)])
    arrays = {
        "node_features": np.eye(7, dtype=np.float32)[category],
        "node_labels": labels,
        "edges": edges,
        "train_masks": role < 2,
        "val_masks": role == 2,
        "test_masks": role == 3,
    }
    raw = root / folder / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    np.savez_compressed(raw / "minesweeper.npz", **arrays)
    return arrays


def write_heterophilous(
    root: Path, name: str, num_classes: int, seed: int = 0
) -> dict[str, NDArray]:
    """Write `planted(seed)` as root/heterophilous/name/raw/name.npz with features of real numbers;
    returns its arrays.

    As in the originals: an edge stands once, 10 splits of 50/25/25, `name` in small letters with
    underscores.
    """
    graph, rng = planted(seed), np.random.default_rng(seed + 1)
    role = np.stack([rng.permutation(np.arange(PLANTED_NODES) % 4) for _ in range(GRID_SPLITS)])
    arrays = {
        "node_features": rng.normal(size=(PLANTED_NODES, 12)).astype(np.float32),
        "node_labels": graph.labels % num_classes,
        "edges": rng.permutation(np.array(sorted(graph.edges))),
        "train_masks": role < 2,
        "val_masks": role == 2,
        "test_masks": role == 3,
    }
    raw = root / "heterophilous" / name / "raw"
    raw.mkdir(parents=True)
    np.savez_compressed(raw / f"{name}.npz", **arrays)
    return arrays


def write_amazon(
    root: Path, name: str = "Photo", seed: int = 0, folder: str = "amazon"
) -> tuple[Planted, dict]:
    """Write `planted(seed)` as root/folder/name/raw/amazon_electronics_name.npz; returns it and the
    archive's arrays.

    As in the originals: edges and words are the parts of CSR matrices, some edges stand in one
    direction alone. To be coped with: counts of words where `planted` has ones, pickled names,
    columns out of order, a self-loop, and an edge whose stored value is 0.
    """
    from scipy.sparse import csr_matrix

    graph, rng = planted(seed), np.random.default_rng(seed + 1)
    edges = np.array(
        [edge for i, j in sorted(graph.edges) for edge in ([(i, j), (j, i)] if j % 7 else [(i, j)])]
    )
    edges = rng.permutation(np.concatenate([edges, [(3, 3)]]))
    edges = edges[np.argsort(edges[:, 0], kind="stable")]  # rows in order, columns within a row not
    counts = csr_matrix(graph.features * rng.integers(1, 5, size=graph.features.shape))
    arrays = {
        "adj_data": (np.arange(len(edges)) > 0).astype(np.float32),
        "adj_indices": edges[:, 1].astype(np.int32),
        "adj_indptr": np.searchsorted(edges[:, 0], np.arange(PLANTED_NODES + 1)).astype(np.int32),
        "adj_shape": np.array([PLANTED_NODES, PLANTED_NODES]),
        "attr_data": counts.data.astype(np.float32),
        "attr_indices": counts.indices,
        "attr_indptr": counts.indptr,
        "attr_shape": np.array(counts.shape),
        "labels": graph.labels,
        "class_names": np.array(["film", "digital", None], dtype=object),
    }
    raw = root / folder / name / "raw"
    raw.mkdir(parents=True)
    np.savez_compressed(raw / f"amazon_electronics_{name.lower()}.npz", **arrays)
    return graph, arrays


def user_fields(num_nodes: int = 60, seed: int = 0) -> dict[str, object]:
    """x, edge_index, y of a ring with chords, 2 classes by halves, and 3 isolated nodes."""
    rng = np.random.default_rng(seed)
    ring = num_nodes - 3
    source = np.arange(ring)
    edges = np.concatenate(
        [np.stack([source, (source + 1) % ring]), rng.integers(ring, size=(2, ring // 2))], axis=1
    )
    labels = (np.arange(num_nodes) * 2 // num_nodes).astype(np.int64)
    features = rng.normal(size=(num_nodes, 8)) + labels[:, None]
    return {
        "x": torch.from_numpy(features.astype(np.float32)),
        "edge_index": torch.from_numpy(edges),
        "y": torch.from_numpy(labels),
    }


def write_user_graph(path: Path, **changes: object) -> dict[str, object]:
    """Store `user_fields()` with `changes` as a `Data`; None leaves a field out."""
    from torch_geometric.data import Data

    fields = {name: value for name, value in (user_fields() | changes).items() if value is not None}
    torch.save(Data(**fields), path)
    return fields


def load_all(spec: GraphSpec, cache_dir: Path, num_clients: int) -> list[ClientGraph]:
    """Every client's data."""
    return [
        GraphDataset(spec, cache_dir).client(client, num_clients) for client in range(num_clients)
    ]


def pairs(graph: ClientGraph) -> list[tuple[int, int]]:
    """The columns of `edge_index`."""
    return [(i, j) for i, j in graph.edge_index.T.tolist()]


def same(first: ClientGraph, second: ClientGraph) -> bool:
    """Whether two clients' data are equal to the bit."""
    tensors = ["edge_index", "labels", "train", "val", "test"]
    scalars = (
        *("class_names", "metric", "forman", "forman_plain", "digest", "partition_digest"),
        *("space", "task"),
    )
    if first.task == second.task == "graphs":
        tensors.append("graph_of_node")
    return (
        all(torch.equal(getattr(first, name), getattr(second, name)) for name in tensors)
        and all(getattr(first, name) == getattr(second, name) for name in scalars)
        and first.features.layout == second.features.layout
        and torch.equal(first.features.to_dense(), second.features.to_dense())
    )


@dataclass(frozen=True, eq=False)
class TUGraph:
    """A TU graph: label, attributes and a label for every node, edges (i, j), i < j, from 0."""

    label: int
    attributes: list[list[float]]
    node_labels: list[int]
    edges: frozenset[tuple[int, int]]


def tu_graphs(num_graphs: int = 24, seed: int = 0) -> list[TUGraph]:
    """Small random graphs with labels -1, 2, 10 in turn; the third is a single node, the fourth has
    no edges.

    The first attribute is the node's number in the whole set, the second is 7 everywhere; no node
    has the label 1.
    """
    rng = np.random.default_rng(seed)
    graphs, start = [], 0
    for number in range(num_graphs):
        size = 1 if number == 2 else int(rng.integers(3, 9))
        chosen = np.argwhere(np.triu(rng.random((size, size)) < 0.4, 1)) if number != 3 else []
        graphs.append(
            TUGraph(
                label=(-1, 2, 10)[number % 3],
                attributes=[
                    [float(start + node), 7.0, round(rng.normal(), 3)] for node in range(size)
                ],
                node_labels=rng.choice([-2, 0, 3], size=size).tolist(),
                edges=frozenset((int(i), int(j)) for i, j in chosen),
            )
        )
        start += size
    return graphs


def write_tu(
    root: Path,
    name: str = "MUTAG",
    graphs: list[TUGraph] | None = None,
    attributes: bool = True,
    node_labels: bool = True,
    folder: str = "tu",
) -> list[TUGraph]:
    """Write `graphs`, by default `tu_graphs()`, as root/folder/name/raw/name_*.txt; returns them.

    As in the originals an edge stands in both directions. Beyond them: every fifth stands in one
    alone, one edge is doubled, a self-loop, and all of them in any order.
    """
    graphs = tu_graphs() if graphs is None else graphs
    lines, start = [], 1
    for graph in graphs:
        for i, j in sorted(graph.edges):
            lines.append((start + j, start + i))
            if len(lines) % 5:
                lines.append((start + i, start + j))
        start += len(graph.node_labels)
    lines += [*lines[:1], (1, 1)]
    parts = {
        "A": np.random.default_rng(0).permutation(lines).tolist(),
        "graph_indicator": [
            [number] for number, graph in enumerate(graphs, 1) for _ in graph.node_labels
        ],
        "graph_labels": [[graph.label] for graph in graphs],
        "edge_labels": [[0]] * len(lines),
    }
    if attributes:
        parts["node_attributes"] = [row for graph in graphs for row in graph.attributes]
    if node_labels:
        parts["node_labels"] = [[label] for graph in graphs for label in graph.node_labels]
    raw = root / folder / name / "raw"
    raw.mkdir(parents=True)
    for part, rows in parts.items():
        (raw / f"{name}_{part}.txt").write_text(
            "".join(f"{', '.join(map(str, row))}\n" for row in rows)
        )
    return graphs


def user_graphs(num_graphs: int = 12, seed: int = 0) -> list[dict[str, object]]:
    """x, edge_index, y of all `tu_graphs`: attributes, 0..2 in turn, edges one way."""
    return [
        {
            "x": torch.tensor(graph.attributes),
            "edge_index": torch.tensor(sorted(graph.edges), dtype=torch.int64).reshape(-1, 2).T,
            "y": torch.tensor(number % 3),
        }
        for number, graph in enumerate(tu_graphs(num_graphs, seed))
    ]


def graph_of(num_nodes: int, pairs: list[tuple[int, int]]) -> ClientGraph:
    """A graph with these edges in both directions, and nodes that are alike."""
    both = sorted([*pairs, *((j, i) for i, j in pairs)])
    edge_index = torch.tensor(both, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    labels, masks = (
        torch.zeros(num_nodes, dtype=torch.int64),
        torch.zeros(3, num_nodes, dtype=torch.bool),
    )
    return client_graph(torch.ones(num_nodes, 2), edge_index, labels, masks, ("0",), "accuracy", "")


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)

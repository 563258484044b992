"""Graphs: the readers of public data sets, the parts of a data set, and the tasks of the
clients."""

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from curvfed.tasks import plugins
from curvfed.tasks.dataset import Dataset
from curvfed.tasks.errors import DataError, ModelError
from curvfed.tasks.graphs.client_task import GraphTask, client_task
from curvfed.tasks.graphs.data import (
    PLANETOID_ENDINGS,
    Source,
    graph_dataset_names,
    is_path,
)
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.clients import (
    own_graph,
    own_graphs,
    partition_graph,
    partition_graphs,
    tree,
)
from curvfed.tasks.graphs.data.graph_spec import ROLES, GraphSpec
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs, raw_graph
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.public_data import Located, PublicData
from curvfed.tasks.registry import source_of


@contextlib.contextmanager
def _reading(source: Source, path: Path) -> Iterator[None]:
    """Turn any error of a reader into a DataError: a damaged archive may raise anything."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}); remove it and download"
            f" {source.title} again",
            str(error),
            key="unreadable",
        ) from error


def read_planetoid(source: Source, folder: Path) -> RawGraph:
    """Read by PyTorch Geometric's own reader. The raw files are Python pickles: read them only from
    a source you trust."""
    # The import calls functions that newer versions of torch deprecate.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.io import planetoid

    def is_damaged(ending: str) -> bool:
        try:
            planetoid.read_file(str(folder), source.title, ending)
        except Exception:
            return True
        return False

    # The reader changes the filters, and unpickling old SciPy and NumPy objects warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = planetoid.read_planetoid_data(str(folder), source.title)
            # The reader accepts a list of test nodes that is cut short, and gives the other nodes
            # wrong rows.
            test_rows = planetoid.read_file(str(folder), source.title, "tx")
            if len(test_rows) != int(data.test_mask.sum()):
                raise ValueError("tx and test.index differ in length")
        except Exception as error:  # a damaged pickle may raise anything
            endings = dict(zip(source.files, PLANETOID_ENDINGS, strict=True))
            damaged = [name for name, ending in endings.items() if is_damaged(ending)]
            fault = f"the files in {folder} do not fit together"
            if damaged:
                fault = f"{folder / damaged[0]} cannot be read"
            raise DataError(
                f"{fault} ({type(error).__name__}); remove the folder and download {source.title}"
                " again",
                key="unreadable",
            ) from error
    return raw_graph(folder, data.x, data.edge_index, data.y)


def read_heterophilous(source: Source, folder: Path) -> RawGraph:
    """Read an archive of Platonov et al. (2023): arrays (nodes, ...), edges in one direction, masks
    (splits, nodes)."""
    path = folder / source.files[0]
    with (
        _reading(source, path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
        masks = {f"{role}_mask": arrays[f"{role}_masks"].T for role in ROLES}
        fields = arrays["node_features"], arrays["edges"].T, arrays["node_labels"]
    return raw_graph(path, *fields, masks, metric=source.metric)


def read_amazon(source: Source, folder: Path) -> RawGraph:
    """Read an archive of Shchur et al. (2018): labels, and CSR matrices of edges and word counts.

    As in PyTorch Geometric a feature is 1 if the word occurs, and every stored entry is an edge,
    whatever its value.
    """
    path = folder / source.files[0]
    # Only the needed entries are read: others, such as names, may be pickled.
    with (
        _reading(source, path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        edges = _csr(stored, "adj").tocoo()
        words = _csr(stored, "attr").toarray() > 0
        labels = torch.from_numpy(stored["labels"])
    edge_index = np.stack([edges.row, edges.col])
    return raw_graph(path, torch.from_numpy(words), torch.from_numpy(edge_index), labels)


def _csr(stored: Mapping[str, np.ndarray], name: str) -> Any:
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (
        stored[f"{name}_{array}"] for array in ("data", "indices", "indptr", "shape")
    )
    matrix = csr_array((data, indices, indptr), shape=tuple(shape))
    # With an index out of range SciPy would write outside of the dense array.
    matrix.check_format(full_check=True)
    return matrix


Raw = RawGraph | RawGraphs


class GraphDataset(Dataset):
    """One graph with classified nodes, or many classified graphs.

    Graphs are cleaned, split (once, over all clients) and partitioned; edges between clients are
    dropped. A public graph is first cut to its largest connected component (the protocol of
    FED-PUB, Baek et al. 2023); a user's graph keeps all its nodes. Client 0 logs these steps. A
    graph in a user's file keeps the split of its masks; without masks `record_split` splits it, or
    the seed.
    """

    examples = ClientGraph
    raw = (RawGraph, RawGraphs)
    tasks = ("nodes", "graphs")
    spec: GraphSpec

    @classmethod
    def configured(cls, run: Any, cache: Path | None = None) -> Self:
        """The graphs of a run's configuration."""
        return cls(GraphSpec.of_run(run), cache)

    def find(self, source: PublicData) -> Located[Raw] | None:
        """The files of a public data set, or None if they are absent."""
        from curvfed.tasks.graphs.data.tu_files import raw_files, read_tu

        folder = source.folder(self.spec.data_dir)
        if folder is None:
            return None
        if isinstance(source, Source):
            files = tuple(folder / name for name in source.files)
            return Located(files, partial(plugins.imported(source.read), source, folder))
        name = source.title
        return Located(raw_files(folder, name), partial(read_tu, folder, name))

    def locate_files(self, path: Path) -> Located[Raw]:
        """Locate a user's `.pt` file, or folder in the TU collection's layout."""
        from curvfed.tasks.graphs.data.tu_files import find_files, raw_files, read_tu
        from curvfed.tasks.graphs.data.user_file import read_user_file

        if not path.is_dir():
            return Located((path,), partial(read_user_file, path))
        folder, name = find_files(path)
        return Located(raw_files(folder, name), partial(read_tu, folder, name, is_own=True))

    def sources(self) -> list[PublicData]:
        """The public graph, or all sets of graphs."""
        names = graph_dataset_names(self.spec.dataset) or (self.spec.dataset,)
        return [source for source in map(source_of, names) if source is not None]

    def part(self, partition_id: int, num_partitions: int) -> ClientGraph:
        """A part of a graph or of a set of graphs, or a generated tree."""
        spec = self.spec
        if spec.dataset.lower() == KINDS["nodes"].built_in:
            return tree(spec, partition_id, num_partitions)
        names = graph_dataset_names(spec.dataset)
        is_of_other_tool = is_path(spec.dataset) and bool(self.locate().title)
        if names is not None and not is_of_other_tool:
            return self._part_of_sets(names, partition_id, num_partitions)
        located = self.locate()
        settings = asdict(spec) | {
            "dataset": spec.dataset.lower(),
            "data_dir": "",
            "num_partitions": num_partitions,
        }

        def prepare() -> Iterable[ClientGraph]:
            raw = located.read()
            if isinstance(raw, RawGraphs):
                return partition_graphs(raw, spec, num_partitions, record_split=self.record_split)
            return partition_graph(raw, spec, num_partitions)

        return self.prepared(located, partition_id, settings, prepare)

    def _part_of_sets(
        self, names: tuple[str, ...], partition_id: int, num_partitions: int
    ) -> ClientGraph:
        """A part of one of several sets of graphs.

        With D data sets client p holds graphs of data set p modulo D (Xie et al., 2021: one data
        set, one client). A data set is split once over all its graphs and partitioned at random
        among its clients; `spec.partition` is ignored.

        Raises
        ------
        DataError
            More clients than graphs, or a number of clients that is not a multiple of the number of
            data sets.
        """
        spec = self.spec
        if num_partitions % len(names):
            raise DataError(
                f"{num_partitions} clients cannot be shared out evenly to {len(names)} data sets"
                f" ({', '.join(names)}); their number must be a multiple of {len(names)}",
                key="uneven-clients",
            )
        share, place = divmod(partition_id, len(names))
        located = self.locate(names[place])
        # A client lacks the other clients' data sets, so the digest covers how graphs are
        # partitioned, not which graphs these are.
        settings: dict[str, Any] = {
            "datasets": ",".join(Path(name).name for name in names),
            "seed": spec.seed,
            "train_size": spec.train_size,
            "test_size": spec.test_size,
            "normalize": spec.normalize,
            "num_partitions": num_partitions,
        }

        def prepare() -> Iterable[ClientGraph]:
            digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
            space = names[place] if len(names) > 1 else ""
            number = num_partitions // len(names)
            return partition_graphs(located.read(), spec, number, digest, space, self.record_split)

        return self.prepared(located, share, settings, prepare)

    def own_settings(self) -> dict[str, Any]:
        """All settings but those of the data set."""
        return asdict(self.spec) | {"dataset": "", "data_dir": "", "own": 1}

    def own_data(self, raw: Raw) -> ClientGraph:
        """A node's own graph, or all its graphs."""
        if isinstance(raw, RawGraphs):
            return own_graphs(raw, self.spec, self.record_split)
        return own_graph(raw, self.spec, self.record_split)

    @staticmethod
    def task(
        run: Any,
        examples: ClientGraph,
        class_names: tuple[str, ...],
        device: torch.device,
        model: nn.Module,
    ) -> GraphTask:
        """The client's graphs, with the share of the nodes that the method trains on."""
        return client_task(examples, class_names, device, run.batch_size, run.network.node_share)

    @staticmethod
    def model_spec(
        run: Any,
        facts: Any,
        model: str,
        options: Mapping[str, Any],
        num_features: int,
        num_classes: int,
    ) -> ModelSpec:
        """The graph network, of width `embedding-dim`."""
        if run.embedding_dim == 0:
            raise ModelError(
                f"embedding-dim = 0: allowed for data of {facts.task} is a width of 1 or more",
                key="embedding-dim-with-dataset",
            )
        return ModelSpec(
            task=facts.task,
            kind=model,
            num_features=facts.num_features or num_features,
            num_classes=len(facts.class_names) or num_classes,
            width=run.embedding_dim,
            dropout=run.dropout,
            **options,
        )


DATASET = GraphDataset

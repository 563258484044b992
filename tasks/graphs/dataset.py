"""Graphs: the parts of a data set, and the tasks of the clients."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from curvfed.tasks.dataset import Dataset
from curvfed.tasks.errors import DataError, ModelError
from curvfed.tasks.graphs.client_task import GraphTask, client_task
from curvfed.tasks.graphs.data import checked_parts
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.clients import (
    own_graph,
    own_graphs,
    partition_graph,
    partition_graphs,
    tree,
)
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.public_data import Located, PublicData
from curvfed.tasks.registry import graph_sets, source_of

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

    def locate_files(self, path: Path) -> Located[Raw]:
        """Locate a user's `.pt` file."""
        from curvfed.tasks.graphs.data.user_file import read_user_file

        return Located((path,), partial(read_user_file, path))

    def checked(self, where: str, raw: Raw) -> Raw:
        """The graph, with finite features, edges between its nodes and a label for each."""
        if isinstance(raw, RawGraph):
            num_nodes = len(checked_parts.features(where, raw.features))
            checked_parts.edges(where, raw.edge_index, num_nodes)
            checked_parts.labels(where, raw.labels, num_nodes)
        return raw

    def sources(self) -> list[PublicData]:
        """The public graph, or all sets of graphs."""
        names = graph_sets(self.spec.dataset) or (self.spec.dataset,)
        return [source for source in map(source_of, names) if source is not None]

    def part(self, partition_id: int, num_partitions: int) -> ClientGraph:
        """A part of a graph or of a set of graphs, or a generated tree."""
        spec = self.spec
        if spec.dataset.lower() == KINDS["nodes"].built_in:
            return tree(spec, partition_id, num_partitions)
        names = graph_sets(spec.dataset)
        if names is not None:
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

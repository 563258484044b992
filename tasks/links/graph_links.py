"""The edges of client graphs as links: the nodes of each client, and which are neighbours."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.links.client_links import ClientLinks, raw_links
from curvfed.tasks.links.dataset import LinkDataset, LinkSpec, split_links


class GraphLinks(LinkDataset):
    """The edges of the graphs that the classification of nodes gives the clients; the default
    partition is METIS's.

    Parameters
    ----------
    spec : LinkSpec
    run : RunConfig
        With its defaults resolved.
    cache : Path or None
        As for `Dataset`.
    """

    def __init__(self, spec: LinkSpec, run: Any, cache: Path | None = None) -> None:
        super().__init__(spec, cache)
        defaults = KINDS["nodes"].defaults
        settings = {name: defaults[name] for name in ("train_size", "test_size", "batch_size")}
        settings["partition"] = "random" if spec.partition == "random" else defaults["partition"]
        self._graphs = GraphDataset.of_run(run.model_copy(update=settings), cache)

    def part(self, partition_id: int, num_partitions: int) -> ClientLinks:
        """Each edge in both directions, which are in one part of the split."""
        graph = self._graphs.client(partition_id, num_partitions)
        names = [f"{partition_id}.{node}" for node in range(len(graph.features))]
        if graph.numbers is not None:
            names = list(map(str, graph.numbers.tolist()))
        edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist()
        raw = raw_links(self.spec.dataset, [(names[head], names[tail]) for head, tail in edges])
        parts = split_links(raw, self.spec)
        triples = np.concatenate([raw.triples, raw.triples[:, ::-1]])
        both = replace(raw, triples=triples, parts=np.concatenate([parts, parts]))
        return self._links(both, digest=graph.partition_digest)

    def test(self, path: Path | None = None) -> ClientLinks | None:
        """Those of a path; the server does not know the clients' graphs."""
        return None if path is None else super().test(path)

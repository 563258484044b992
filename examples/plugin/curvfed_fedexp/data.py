"""A data set of nodes: four communities, whose nodes have noisy features of their community."""

from pathlib import Path

import networkx as nx
import numpy as np
import torch

from curvfed.tasks.graphs.data.raw import RawGraph, raw_graph
from curvfed.tasks.plugins import DataSet

SIZES, WITHIN, BETWEEN = [75] * 4, 0.08, 0.005


def load(folder: Path) -> RawGraph:
    """The graph; a data set of files would read them below `folder`, which is `data-dir`."""
    graph = nx.stochastic_block_model(
        SIZES, np.where(np.eye(4, dtype=bool), WITHIN, BETWEEN), seed=0
    )
    labels = torch.arange(4).repeat_interleave(75)
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((300, 16))).float()
    features = noise + torch.nn.functional.one_hot(labels, 16)
    return raw_graph(Path("blocks"), features, torch.tensor(list(graph.edges)).t(), labels)


BLOCKS = DataSet("nodes", load)

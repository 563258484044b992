"""What determines the data of a run on graphs, and the norm that all features get."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import PARTITIONS

NORMS = {"l2": 2, "l1": 1, "none": None}


@dataclass(frozen=True)
class GraphSpec:
    """Everything that determines the data of a run.

    Attributes
    ----------
    dataset : str
        "trees", a name in `curvfed.tasks.graphs.data.sources.SOURCES` in any case, one or several sets of graphs as in
        `curvfed.tasks.graphs.data.tu.graph_dataset_names`, or the path of a `.pt` file.
    data_dir : Path
        The folder of the public data sets, in PyTorch Geometric's layout.
    partition : str
        "metis" or "random".
    seed : int
        Of partition and split, or of the generator; at least 0. Where a data set brings S splits of its own, split
        `seed` modulo S is used.
    train_size, test_size : float
        Shares of the nodes, or graphs, at least 0 and together at most 1; validation takes the rest.
    normalize : str
        The norm that every row of features gets, "l2" or "l1", or "none". Rows of zeros stay zero.
    """

    dataset: str
    data_dir: Path
    partition: str = "metis"
    seed: int = 0
    train_size: float = 0.2
    test_size: float = 0.4
    normalize: str = "l2"

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONS:
            raise DataError(f'partition is "{self.partition}"; allowed: {", ".join(PARTITIONS)}')
        if self.normalize not in NORMS:
            raise DataError(f'normalize is "{self.normalize}"; allowed: {", ".join(NORMS)}')
        if self.seed < 0:
            raise DataError(f"seed is {self.seed}; it must be at least 0")
        sizes = self.train_size, self.test_size
        if not all(size >= 0 for size in sizes) or math.fsum(sizes) > 1 + 1e-9:
            raise DataError(f"train_size and test_size are {sizes}; each must be at least 0, together at most 1")


def normalize_rows(features: Tensor, norm: str) -> Tensor:
    """Rows of unit `norm` ("l2", "l1"), or as they are ("none"); rows of zeros stay zero.

    Parameters
    ----------
    features : Tensor, (N, F), dense, finite
    """
    order = NORMS[norm]
    if order is None:
        return features
    # Scaled by the largest entry first, so that no square overflows or vanishes.
    scale = features.abs().amax(dim=1, keepdim=True)
    scaled = features / torch.where(scale > 0, scale, 1)
    size = torch.linalg.vector_norm(scaled, ord=order, dim=1, keepdim=True)
    return scaled / torch.where(size > 0, size, 1)

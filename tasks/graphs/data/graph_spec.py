"""The settings that determine the data of a run on graphs, and the normalisation of features."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.own_split import PARTS, VALIDATION, OwnSplit
from curvfed.tasks.graphs.data.partition import PARTITIONS, check_shares, random_split
from curvfed.tasks.graphs.sparse import csr

NORMS = {"l2": 2, "l1": 1, "none": None}

VALIDATION_SHARE = 0.2
"""The share of the training nodes that validate in a graph with masks for training and testing
alone."""


@dataclass(frozen=True)
class GraphSpec:
    """Everything that determines the data of a run.

    Attributes
    ----------
    dataset : str
        "trees", a name in `curvfed.tasks.graphs.data.sources.SOURCES` in any case, one or several
        sets of graphs as in `curvfed.tasks.graphs.data.tu.graph_dataset_names`, or the path of a
        `.pt` file.
    data_dir : Path
        The folder of the public data sets, in PyTorch Geometric's layout.
    partition : str
        "metis" or "random".
    seed : int
        Of partition and split, or of the generator; at least 0. Where a data set brings S splits of
        its own, split `seed` modulo S is used.
    train_size, test_size : float
        Shares of the nodes, or graphs, at least 0 and together at most 1; validation takes the
        rest.
    normalize : str
        The norm that every row of features gets, "l2" or "l1", or "none". Rows of zeros stay zero.
    batch_size : int
        Nodes per training step; a client with more gets the clusters that batches are made of. 0
        for all at once.
    """

    dataset: str
    data_dir: Path
    partition: str = "metis"
    seed: int = 0
    train_size: float = 0.2
    test_size: float = 0.4
    normalize: str = "l2"
    batch_size: int = 0

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONS:
            raise DataError(f'partition is "{self.partition}"; allowed: {", ".join(PARTITIONS)}')
        check_shares(self.train_size, self.test_size)

    def split(self, labels: Tensor, *stream: int) -> Tensor:
        """Random masks (3, n) of the training, validation and test examples, those of unknown class
        in none.

        `labels` are (n,), -1 where unknown; `stream` distinguishes draws of one seed.
        """
        # A stream of its own, so that the split is independent of the random partition of the same
        # seed.
        rng = np.random.default_rng([self.seed, 1, *stream])
        known = labels >= 0
        masks = torch.zeros(3, len(labels), dtype=torch.bool)
        masks[:, known] = torch.from_numpy(
            random_split(int(known.sum()), self.train_size, self.test_size, rng)
        )
        return masks

    def completed(self, split: OwnSplit, labels: Tensor) -> Tensor:
        """Masks (3, n) of a file's split; the parts that it lacks are drawn.

        Validation alone is drawn from the training examples, `VALIDATION_SHARE` of them. Other
        parts are drawn from the examples of known class that are in no part, by the shares of the
        settings.
        """
        masks = split.masks[:, :, self.seed % split.masks.shape[2]].clone()
        if not split.absent:
            return masks
        first = split.absent[0]
        last = split.absent[-1]
        sizes = (self.train_size, 1 - self.train_size - self.test_size, self.test_size)
        share = sizes[first] / max(sizes[first] + sizes[last], 1e-9)
        pool = (labels >= 0) & ~masks.any(dim=0)
        if split.absent == (VALIDATION,):
            last = PARTS.index("train")
            share = VALIDATION_SHARE
            pool = masks[last]
        order = np.random.default_rng([self.seed, 2]).permutation(pool.nonzero().squeeze(1).numpy())
        count = round(share * len(order))
        masks[:, order] = False
        masks[first, order[:count]] = True
        masks[last, order[count:]] = True
        return masks


def normalize_rows(features: Tensor, norm: str) -> Tensor:
    """Rows of unit `norm` ("l2", "l1"), or as they are ("none"); rows of zeros stay zero.

    Parameters
    ----------
    features : Tensor, (N, F), dense or CSR, finite
    """
    order = NORMS[norm]
    if order is None:
        return features
    if features.layout == torch.sparse_csr:
        lengths = features.crow_indices().diff()
        values = features.values().double()  # in which no square overflows or vanishes
        sizes = torch.segment_reduce(values.abs() ** order, "sum", lengths=lengths) ** (1 / order)
        scaled = (values / sizes.repeat_interleave(lengths)).nan_to_num()
        return csr(
            features.crow_indices(), features.col_indices(), scaled.float(), features.shape[1]
        )
    # Scaled by the largest entry first, so that no square overflows or vanishes.
    scale = features.abs().amax(dim=1, keepdim=True)
    scaled = features / torch.where(scale > 0, scale, 1)
    size = torch.linalg.vector_norm(scaled, ord=order, dim=1, keepdim=True)
    return scaled / torch.where(size > 0, size, 1)

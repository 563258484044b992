"""The settings that determine the data of a run on graphs, and the normalisation of features."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.dataset import Spec
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.own_split import ROLES, VALIDATION, OwnSplit
from curvfed.tasks.graphs.data.partition import PARTITIONS, check_shares, random_split
from curvfed.tasks.graphs.sparse import csr

NORMS = {"l2": 2, "l1": 1, "none": None}

VALIDATION_SHARE = 0.2
"""The share of the training nodes used for validation if a graph has masks only for training and
testing."""


@dataclass(frozen=True)
class GraphSpec(Spec):
    """The settings of graphs.

    Attributes
    ----------
    dataset : str
        Also several sets of graphs, as in `curvfed.tasks.graphs.data.sources.graph_dataset_names`.
    partition : str
        "metis" or "random".
    seed : int
        Seed of partition and split, or of the generator; at least 0. A data set with S splits uses
        split `seed` modulo S.
    train_size, test_size : float
        Shares of the nodes, or graphs, at least 0 and together at most 1; validation takes the
        remainder.
    normalize : str
        The norm of each row of features, "l2" or "l1", or "none". Rows of zeros stay zero.
    batch_size : int
        Nodes per training step; clients with more nodes form batches of clusters. 0: all nodes.
    """

    partition: str = "metis"
    seed: int = 0
    train_size: float = 0.2
    test_size: float = 0.4
    normalize: str = "l2"
    batch_size: int = 0

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONS:
            raise DataError(
                f'partition is "{self.partition}"; allowed: {", ".join(PARTITIONS)}',
                key="partition",
            )
        check_shares(self.train_size, self.test_size)

    def split(self, labels: Tensor, *stream: int) -> Tensor:
        """Random masks (3, n) of the training, validation and test examples; examples of unknown
        class are in no mask.

        `labels` are (n,), -1 if unknown; `stream` distinguishes draws with the same seed.
        """
        # Another stream than that of the random partition makes the two independent.
        rng = np.random.default_rng([self.seed, 1, *stream])
        labelled = labels >= 0
        masks = torch.zeros(3, len(labels), dtype=torch.bool)
        masks[:, labelled] = torch.from_numpy(
            random_split(int(labelled.sum()), self.train_size, self.test_size, rng)
        )
        return masks

    def split_graphs(self, split: OwnSplit | None, labels: Tensor) -> Tensor:
        """Masks (3, n) of graphs: those of a file's split, or random ones."""
        return self.split(labels) if split is None else self.completed(split, labels)

    def completed(self, split: OwnSplit, labels: Tensor) -> Tensor:
        """Masks (3, n) of a file's split, with random masks for absent roles.

        If only validation is absent, it takes `VALIDATION_SHARE` of the training examples. Other
        roles take examples of known class without a role, in the shares of the settings.
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
            last = ROLES.index("train")
            share = VALIDATION_SHARE
            pool = masks[last]
        order = np.random.default_rng([self.seed, 2]).permutation(pool.nonzero().squeeze(1).numpy())
        count = round(share * len(order))
        masks[:, order] = False
        masks[first, order[:count]] = True
        masks[last, order[count:]] = True
        return masks


def normalize_rows(features: Tensor, norm: str) -> Tensor:
    """Scale rows to unit `norm` ("l2", "l1"), or leave them unchanged ("none"); rows of zeros stay
    zero.

    Parameters
    ----------
    features : Tensor, (N, F), dense or CSR, finite
    """
    order = NORMS[norm]
    if order is None:
        return features
    if features.layout == torch.sparse_csr:
        lengths = features.crow_indices().diff()
        # In float64 no square overflows or underflows.
        values = features.values().double()
        sizes = torch.segment_reduce(values.abs() ** order, "sum", lengths=lengths) ** (1 / order)
        scaled = (values / sizes.repeat_interleave(lengths)).nan_to_num()
        return csr(
            features.crow_indices(), features.col_indices(), scaled.float(), features.shape[1]
        )
    # Scaling by the largest entry first keeps squares from overflow and underflow.
    scale = features.abs().amax(dim=1, keepdim=True)
    scaled = features / torch.where(scale > 0, scale, 1)
    size = torch.linalg.vector_norm(scaled, ord=order, dim=1, keepdim=True)
    return scaled / torch.where(size > 0, size, 1)

"""The cells of a client that have expression, and no coordinates in the disc yet."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints, Floats, client_points
from curvfed.tasks.points.expression import expression, read


@dataclass(frozen=True, eq=False)
class ClientCells(ClientPoints):
    """Cells, all for training and of one class, at the origin of the disc.

    Attributes
    ----------
    values : array (n, g)
        Log-normalised expression.
    """

    values: Floats


def client_cells(path: Path, genes: Sequence[str]) -> ClientCells:
    """The expression of these genes in an `.h5ad`.

    Raises
    ------
    DataError
        If the file has no log-normalised expression, or lacks a gene.
    """
    given = expression(read(path), path)
    if missing := sorted(set(genes) - set(given.genes)):
        raise DataError(
            f"{path} lacks {len(missing)} of the {len(genes)} genes of pca.genes:"
            f" {', '.join(missing[:10])}"
        )
    values = given.dense(list(genes))
    none = np.zeros(len(values), dtype=np.bool_)
    like = client_points(np.zeros((len(values), 2)), none.astype(np.int64), none, ("cell",), -1.0)
    return ClientCells(
        **vars(like) | {"digest": hashlib.sha256(values.data).hexdigest()}, values=values
    )

"""The cells of a client, with expression and without coordinates in the disc."""

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
    stored = expression(read(path), path)
    missing = sorted(set(genes) - set(stored.genes))
    if missing:
        raise DataError(
            f"{path} lacks {len(missing)} of the {len(genes)} genes of pca.genes:"
            f" {', '.join(missing[:10])}",
            key="no-gene",
        )
    values = stored.dense(list(genes))
    labels = np.zeros(len(values), dtype=np.int64)
    test = np.zeros(len(values), dtype=np.bool_)
    cells = client_points(np.zeros((len(values), 2)), labels, test, ("cell",), -1.0)
    fields = vars(cells) | {"digest": hashlib.sha256(values.data).hexdigest()}
    return ClientCells(**fields, values=values)

"""The client's reply in a run of discriminant analysis or of principal components: moments of its
data, masked."""

from functools import partial
from typing import Any

import numpy as np
import torch
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.secure import masked_reals, open_letters
from curvfed.geometry import poincare
from curvfed.strategies.config.masked_vector import client_vector, sum_encoding
from curvfed.strategies.methods import pca
from curvfed.strategies.methods.discriminant import BOUND, Array, class_moments
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.messages import Request
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.cells import ClientCells
from curvfed.tasks.points.client_points import ClientPoints


def moments(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Moments of log0 of this client's training points for each of the federation's classes, or of
    cells' expression."""
    _, complaint = open_letters(request, state)
    if complaint:
        return complaint
    values, weight, bound = (
        _of_cells(client) if client.config.method == "pca" else _of_classes(client, request)
    )
    vector = client_vector(values, weight, {}, bound)
    inputs = Inputs.of_data(vector, request.header.phase)
    return masked_reals(client, request, state, vector, partial(sum_encoding, bound), inputs)


def _of_cells(client: Client) -> tuple[Array, int, float]:
    """The vector to be summed, the number of cells, and the bound of what a cell adds."""
    if not isinstance(client.data, ClientCells):
        raise DataError(
            "the data are not cells with their expression; allowed is an .h5ad of the node's own"
            " (data-path)"
        )
    return pca.moments(client.data.values), len(client.data.values), pca.BOUND


def _of_classes(client: Client, request: Request) -> tuple[Array, int, float]:
    """The same for points and their classes."""
    data = client.data
    if not isinstance(data, ClientPoints):
        raise DataError("the data are not points in a disc")
    if request.facts is None:
        raise MessageError('the record "facts" is missing')
    public = request.facts.class_names
    if unknown := sorted(
        {data.class_names[one] for one in np.unique(data.train_labels)} - set(public)
    ):
        raise DataError(f"{len(unknown)} classes here have no name that the federation knows")
    labels = np.array([public.index(name) if name in public else 0 for name in data.class_names])[
        data.train_labels
    ]
    points = data.train_points
    if client.policy:  # the sums of a class that one client has alone are that client's
        kept = np.bincount(labels)[labels] >= client.policy.leaves.hull_min_class_size
        points = points[kept]
        labels = labels[kept]
    unit = torch.from_numpy(points * np.sqrt(-data.curvature))
    values = class_moments(poincare.log0(unit, -1.0).numpy(), labels.astype(np.int64), len(public))
    return values, len(labels), BOUND

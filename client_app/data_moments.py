"""A client's reply in discriminant analysis and principal components: moments of its data,
masked."""

from functools import partial
from typing import Any

import numpy as np
import torch
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.data.points import disc_points
from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.secure import masked_reals, receive_shares
from curvfed.geometry import poincare
from curvfed.strategies.config.masked_vector import client_vector, sum_encoding
from curvfed.strategies.methods import pca
from curvfed.strategies.methods.discriminant import BOUND, Array, class_moments
from curvfed.strategies.wire.messages import Request
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.cells import ClientCells


def masked_moments(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Moments of log0 of the training points of each class, or of the cells' expression."""
    _, complaint = receive_shares(request, state)
    if complaint:
        return complaint
    if client.config.method == "pca":
        values, weight, bound = _cell_moments(client)
    else:
        values, weight, bound = _class_moments(client, request)
    vector = client_vector(values, weight, {}, bound)
    inputs = Inputs.of_data(vector, request.header.phase)
    return masked_reals(client, request, state, vector, partial(sum_encoding, bound), inputs)


def _cell_moments(client: Client) -> tuple[Array, int, float]:
    """The vector to be summed, the number of cells, and the bound on the norm that a cell adds."""
    if not isinstance(client.data, ClientCells):
        raise DataError(
            "the data are not cells with their expression; allowed is an .h5ad of the node's own"
            " (data-path)",
            key="not-cells",
        )
    return pca.moments(client.data.values), len(client.data.values), pca.BOUND


def _class_moments(client: Client, request: Request) -> tuple[Array, int, float]:
    """The same for points and their classes."""
    data = disc_points(client.data)
    public = request.required_facts.class_names
    present = {data.class_names[label] for label in np.unique(data.train_labels)}
    unknown = present - set(public)
    if unknown:
        raise DataError(
            f"{len(unknown)} classes here have no name that the federation knows",
            key="unknown-class",
        )
    positions = [public.index(name) if name in public else 0 for name in data.class_names]
    labels = np.array(positions)[data.train_labels]
    points = data.train_points
    if client.node.rules:  # the sums over a class that only one client has are that client's
        min_size = client.node.rules.leaves.hull_min_class_size
        is_large = np.bincount(labels)[labels] >= min_size
        points = points[is_large]
        labels = labels[is_large]
    unit = torch.from_numpy(points * np.sqrt(-data.curvature))
    values = class_moments(poincare.log0(unit, -1.0).numpy(), labels.astype(np.int64), len(public))
    return values, len(labels), BOUND

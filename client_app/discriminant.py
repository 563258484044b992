"""The client's reply in a run of discriminant analysis: the moments of its classes, masked."""

from functools import partial
from typing import Any

import numpy as np
import torch
from flwr.app import RecordDict

from curvfed.client_app.client import Client
from curvfed.client_app.node.inputs import Inputs
from curvfed.client_app.secure import masked_reals, open_letters
from curvfed.geometry import poincare
from curvfed.strategies.config.masked_vector import encoding, packed
from curvfed.strategies.methods.discriminant import BOUND, class_moments
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.messages import Request
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints


def moments(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Moments of log0 of this client's training points, for each of the federation's classes."""
    _, complaint = open_letters(request, state)
    if complaint:
        return complaint
    data = client.data
    if not isinstance(data, ClientPoints):
        raise DataError("the data are not points in a disc")
    if request.facts is None:
        raise MessageError('the record "facts" is missing')
    public = request.facts.class_names
    if unknown := sorted({data.class_names[one] for one in np.unique(data.train_labels)} - set(public)):
        raise DataError(f"{len(unknown)} classes here have no name that the federation knows")
    labels = np.array([public.index(name) if name in public else 0 for name in data.class_names])[data.train_labels]
    points = data.train_points
    if client.policy:  # the sums of a class that one client has alone are that client's
        kept = np.bincount(labels)[labels] >= client.policy.leaves.hull_min_class_size
        points, labels = points[kept], labels[kept]
    unit = torch.from_numpy(points * np.sqrt(-data.curvature))
    values = class_moments(poincare.log0(unit, -1.0).numpy(), labels.astype(np.int64), len(public))
    vector = packed(values, len(labels), {}, BOUND)
    inputs = Inputs.of_data(vector, request.header.phase)
    return masked_reals(client, request, state, vector, partial(encoding, BOUND), inputs)

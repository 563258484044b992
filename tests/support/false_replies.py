"""A client that answers train messages with false parameters."""

from dataclasses import replace

import numpy as np
from app_runs import forged, partition_of, phase_of
from flwr.app import Message

LIAR = 2
"""Its partition."""


class Liar:
    """Answers one client's trainings with `factor` times its parameters, or one number."""

    def __init__(self, factor: float = 1.0, entry: float | None = None) -> None:
        self.factor = factor
        self.entry = entry
        self.node = 0

    def false(self, array):
        return self.factor * array if self.entry is None else np.full_like(array, self.entry)

    def __call__(self, request: Message, handle):
        phase = phase_of(request.content)
        if phase == "describe":
            reply = handle(request)
            if partition_of(reply.content) == LIAR:
                self.node = request.metadata.dst_node_id
            return reply
        if phase != "train" or request.metadata.dst_node_id != self.node:
            return handle(request)
        change = forged(
            lambda reply: replace(
                reply,
                arrays={
                    name: self.false(array).astype(array.dtype)
                    for name, array in reply.arrays.items()
                },
            )
        )
        return change(request, handle)

"""A limit of the updates that follows their lengths, for runs that hide clients."""

import math
from dataclasses import replace

import numpy as np

from curvfed.extensions.privacy.keys import Privacy
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.wire.checks import MessageError

CLIP = "dp/clip"
WITHIN = "dp/within"
"""Arrays (1,) in addition to the parameters: the clip that is sent, and the client's answer."""

SHARE = 0.05
"""Share of the budget for `WITHIN`; the updates' noise grows by 2.6%."""

RATE = 0.2
"""The clip's largest step, as a change of its logarithm; their eta_C."""


class AdaptiveClip(Aggregation):
    """Another aggregation, with the clip.

    The server sends the clip with the parameters, so that it is among the values that all members
    of a sum must share. Each client adds to its update whether that was within the clip, as plus or
    minus half the clip. With shares 1 - s and s of the budget, an update u and this number b are
    private together: |u|² (1 - s) / clip² + b² · 4 s / clip² is at most 1, whatever the clip.

    Parameters
    ----------
    inner : Aggregation
    privacy : Privacy
        With `clip_quantile`; `clip` is the first.
    """

    def __init__(self, inner: Aggregation, privacy: Privacy) -> None:
        self._inner = inner
        self._quantile = privacy.clip_quantile or 0.0
        self._clip = privacy.clip
        self.is_global = inner.is_global
        super().__init__({}, inner.keys, inner.config, inner.clients)
        self._report()

    def begin(self, arrays: Arrays) -> None:
        """Nothing is sent yet."""
        self._inner_sent: Arrays = {}
        self._sent: Arrays = {}

    def sent_to(self, partition: int) -> Arrays:
        """The parameters and the clip."""
        sent = self._inner.sent_to(partition)
        if self._inner_sent is not sent:
            self._inner_sent = sent
            self._sent = sent | {CLIP: np.array([self._clip])}
        return self._sent

    def expected_reply(self, partition: int) -> Arrays:
        """The parameters and `WITHIN`."""
        return self._inner.expected_reply(partition) | {WITHIN: np.zeros(1)}

    def global_model(self) -> Arrays:
        """That of the inner aggregation."""
        return self._inner.global_model()

    def aggregate(self, replies: Replies) -> None:
        """Aggregate the parameters, and move the clip."""
        updates = {}
        for partition, update in replies.items():
            arrays = dict(update.arrays)
            share = 0.5 + float(arrays.pop(WITHIN)[0]) / self._clip
            updates[partition] = replace(update, arrays=arrays)
        self._inner.aggregate(updates)
        bounded_share = min(max(share, 0.0), 1.0)
        self._clip *= math.exp(-RATE * (bounded_share - self._quantile))
        self._inner_sent = {}
        self._report()

    def state(self) -> Arrays:
        """The inner state and the clip."""
        return self._inner.state() | {CLIP: np.array([self._clip])}

    def load(self, state: Arrays) -> None:
        """Inverse of `state`."""
        inner = dict(state)
        self._clip = float(inner.pop(CLIP)[0])
        self._inner.load(inner)
        self._inner_sent = {}
        self._report()

    def _report(self) -> None:
        """The inner aggregation's reports, and the clip of the next round."""
        self.figures = self._inner.figures
        self.round_figures = self._inner.round_figures | {"clip": self._clip}
        self.weights = self._inner.weights


def split_clip(arrays: Arrays) -> tuple[Arrays, float]:
    """The parameters that a server sends, and the clip.

    Raises
    ------
    MessageError
        If the clip is not one positive and finite number.
    """
    parameters = dict(arrays)
    clip = parameters.pop(CLIP, np.zeros(0))
    if clip.shape != (1,) or not 0 < float(clip[0]) < math.inf:
        raise MessageError(f"{CLIP} is not one positive number", key="clip")
    return parameters, float(clip[0])


def within(length: float, clip: float) -> Arrays:
    """The client's answer for an update of this length."""
    return {WITHIN: np.array([0.5 * clip if length <= clip else -0.5 * clip])}


def variances(arrays: Arrays, clip: float) -> Floats:
    """Variances of the noise on an update of these arrays and `WITHIN`, at noise multiplier 1."""
    square = clip**2
    of_update = {name: np.full(array.shape, square / (1 - SHARE)) for name, array in arrays.items()}
    squared_share = np.array([square / (4 * SHARE)])
    return Statistics(of_update | {WITHIN: squared_share}).flatten()

"""Means over the clients of an entity's rows, in flat and in hyperbolic space."""

import torch
from torch import Tensor

from curvfed.extensions.links.charts import Hyperboloid


def mean_terms(average: str, chart: Hyperboloid | None, old: Tensor, new: Tensor) -> Tensor:
    """The terms averaged over the clients for each row: its new place, seen from the row before the
    round; (N, d) or (N, d+1).

    Those of `streams` are in `Stream`, as they depend on all places between.
    """
    if chart is None or average == "flat":
        return new - old
    if average == "tangent":
        return chart.log(old, new)
    return chart.offset(old, new)


def mean_rows(average: str, chart: Hyperboloid | None, old: Tensor, means: Tensor) -> Tensor:
    """The rows of these means of `mean_terms`."""
    if chart is None or average == "flat":
        return old + means
    if average == "centroid":
        return chart.move_to_centroid(old, means)
    return chart.move(old, means)


class Stream:
    """The sum of a round's steps of rows, each moved parallel along the geodesic to the row before
    the round: what RFedAGS averages (Huang et al., Riemannian Federated Learning via Averaging
    Gradient Streams, ICLR 2026, Algorithm 1).

    A gradient term of local training that changes no gradient: it sees the rows before each step.

    Parameters
    ----------
    rows : Tensor (N, d)
        The rows in training, at their places before the round.
    chart : Hyperboloid
        Their coordinates.
    """

    def __init__(self, rows: Tensor, chart: Hyperboloid) -> None:
        self._rows = rows
        self._chart = chart
        self._start = rows.detach().clone()
        self._before = self._start
        self._sum = torch.zeros_like(self._start)

    @torch.no_grad()
    def __call__(self) -> None:
        """Add the step since the last call."""
        # In the frames of the start its rows are the origin, and frames are moved from there along
        # geodesics: the step in the frame of its own beginning is the step moved to the start.
        begins = self._chart.offset(self._start, self._before)[..., 1:]
        ends = self._chart.offset(self._start, self._rows.detach())[..., 1:]
        self._sum += Hyperboloid().log(begins, ends) / self._chart.scale
        self._before = self._rows.detach().clone()

    def sum(self) -> Tensor:
        """The sum, (N, d), in the frames of the rows before the round."""
        self()
        return self._sum

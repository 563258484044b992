"""Differential privacy as the guard of a run."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from curvfed.extensions.privacy.accountant import promise
from curvfed.extensions.privacy.conflicts import check_enough_clients, privacy_conflicts
from curvfed.extensions.privacy.keys import TABLE, Privacy
from curvfed.extensions.privacy.plan import (
    epsilon_after,
    privacy_cost,
    sum_noise,
    trains_privately,
)
from curvfed.strategies.base.guard import Guard

if TYPE_CHECKING:
    from curvfed.strategies.base.aggregation import Aggregation
    from curvfed.strategies.base.statistics import Arrays

_HISTOGRAM = "curvfed.extensions.privacy.histogram"

HALVES = {
    "hull": {
        "client": f"{_HISTOGRAM}:HistogramClient",
        "server": f"{_HISTOGRAM}:HistogramServer",
    }
}
"""The halves of one-shot methods with other vectors in private runs, by method."""


class DifferentialPrivacy(Guard):
    """The guard of a run with `dp.unit`; see `Guard`."""

    table = TABLE
    words = "differential privacy"
    remedy = "dp.unit = record or client"
    keys_class = Privacy
    client_half = "curvfed.extensions.privacy.client:PrivateClient"
    keeps_budget = True
    hides_classes = True
    keys: Privacy

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.unit = "" if self.keys.unit == "none" else self.keys.unit
        self.clip = self.keys.clip

    @property
    def hides_number(self) -> bool:
        """In secure sums; private steps are on a public number of examples."""
        return not trains_privately(self.config)

    @property
    def settings(self) -> Mapping[str, Any]:
        """No fine-tuning, and clients of equal weight if they are hidden."""
        weights = {"weights": "uniform"} if self.unit == "client" else {}
        return {"fine_tune_epochs": 0} | weights

    @property
    def promise(self) -> str:
        """Unit, epsilon and delta."""
        return promise(self.keys)

    def conflicts(self, tasks: Collection[str]) -> Iterator[tuple[str, str]]:
        """See `privacy_conflicts`."""
        return privacy_conflicts(self.config, tasks)

    def check_members(self, number: int) -> None:
        """See `check_enough_clients`."""
        check_enough_clients(self.keys, number)

    def cost(self, num_examples: int) -> str:
        """See `privacy_cost`."""
        return privacy_cost(self.config, num_examples)

    def figures(self, sizes: Collection[int], rounds: int) -> dict[str, float]:
        """Epsilon so far, and delta."""
        return {
            "privacy_epsilon": epsilon_after(self.config, sizes, rounds),
            "privacy_delta": self.keys.delta,
        }

    def half(self, side: Literal["client", "server"]) -> str:
        """From `HALVES`."""
        return HALVES.get(self.config.method, {}).get(side, "")

    def aggregation(self, inner: "Aggregation") -> "Aggregation":
        """With the clip, if it follows the lengths of the updates."""
        if self.keys.clip_quantile is None:
            return inner
        from curvfed.extensions.privacy.adaptive_clip import AdaptiveClip

        return AdaptiveClip(inner, self.keys)

    def parameters(self, sent: "Arrays") -> "Arrays":
        """Without the clip."""
        if self.keys.clip_quantile is None:
            return sent
        from curvfed.extensions.privacy.adaptive_clip import split_clip

        return split_clip(sent)[0]

    def limit(self, sent: "Arrays") -> float:
        """The clip of updates of hidden clients."""
        if self.unit != "client":
            return super().limit(sent)
        if self.keys.clip_quantile is None:
            return self.clip
        from curvfed.extensions.privacy.adaptive_clip import split_clip

        return split_clip(sent)[1]

    def noise(self, phase: str, members: int) -> float:
        """More than the run's noise multiplier, so that enough noise is left without the shares of
        members that collude."""
        from curvfed.extensions.privacy.sum_noise import honest_shares

        excess = members / honest_shares(members)
        return sum_noise(self.config, phase) * excess**0.5

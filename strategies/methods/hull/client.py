"""The client's half: its quantised convex hulls, and how much they would reveal."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from curvfed.strategies.base.figures import HULL_COUNTS
from curvfed.strategies.base.one_shot import Figures, Half, Vectors
from curvfed.strategies.base.point_classifier import ClassifierClient
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.hull.codec import PublicParameters, encode_hulls
from curvfed.strategies.hull.local import LocalHulls, client_position, draw_slots, local_hulls
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import Parts
from curvfed.tasks.errors import DataError

MAX_SHARE = 0.1
"""A client warns if a larger share of its points would leave it."""


class HullHalf(Half):
    """The form of a client's vector, known to both halves."""

    def public(self, clients: int) -> PublicParameters:
        """The public parameters, from this side's own configuration."""
        setting = self.setting
        return self.keys.public(setting.points, len(setting.class_names), clients)

    def vectors(self, clients: int) -> Vectors:
        """Vectors of residues."""
        public = self.public(clients)
        return Vectors(public.length, modulus=public.prime)


class HullClient(HullHalf, ClassifierClient):
    """The client's half of `method=hull`."""

    @property
    def minimum(self) -> int:
        """The larger of the run's and the node's."""
        return max(self.keys.min_class_size, super().minimum)

    @classmethod
    def sums_by_name(cls, keys: Any) -> bool:
        """Unless only their number is public."""
        return keys.num_classes is None

    def measure(self, clients: int, question: Parts) -> Figures:
        """Log how many points would leave this client, before it sends any. A simulated client
        also reports it to the server. In a dry run a node that would refuse only logs the reason:
        an open refusal, asked for at many values of a key, would tell the sizes of its classes."""
        public = self.public(clients)
        if question.get("digest") != public.digest:
            raise MessageError(
                "the server's public parameters differ from those of this client's configuration",
                key="public-parameters",
            )
        try:
            local = self._hulls(public)
            self._log(local, public)
            self._check_share(local, public)
        except (ConfigError, DataError) as error:
            if not (self.site.owns_data and self.keys.dry_run):
                raise
            log.warning("this node would not take part: %s", error)
            return {}
        # With the sizes of hulls the server could assign the decoded hulls to clients.
        if self.site.owns_data:
            return {}
        counts = {
            "points": local.num_points,
            "revealed": local.num_revealed,
            "vertices": local.largest,
            "moved": local.moved,
            "thinned": local.thinned,
        }
        return {name: float(count) for name, count in counts.items()}

    def contribution(self, clients: int, order_numbers: Mapping[int, bytes]) -> Statistics:
        """The client's hulls, encoded."""
        public = self.public(clients)
        local = self._hulls(public)
        self._check_share(local, public)
        self.site.reveal(local.revealed(public), self.points.points)
        slots = draw_slots(public.num_classes, len(local.hulls))
        position = client_position(order_numbers, self.site.partition)
        return Statistics({"hulls": encode_hulls(local.hulls, position, slots, public)})

    def _hulls(self, public: PublicParameters) -> LocalHulls:
        data = self.points
        leaves = self.leave()
        points = data.train_points[leaves]
        labels = data.train_labels[leaves]
        if self.keys.switch_labels and not self.site.owns_data:
            seeds = [self.setting.config.seed, self.site.partition, 0x5A17C4]
            labels = np.random.default_rng(seeds).permutation(len(data.class_names))[labels]
        try:
            return local_hulls(points, labels, public)
        except ValueError as error:
            raise DataError(str(error), key="no-hull") from None

    def _check_share(self, local: LocalHulls, public: PublicParameters) -> None:
        """Refuse to reveal more than this node's own configuration allows."""
        limit = self.site.max_share
        if local.num_revealed > limit * len(self.points.points):
            raise ConfigError(
                f"this node's hull-max-share is {limit:g}, and more of its points would leave it at"
                f" epsilon = {public.epsilon:g}",
                key="hull-max-share",
            )

    def _log(self, local: LocalHulls, public: PublicParameters) -> None:
        """Log how much the hulls reveal, for the node's owner, before they leave."""
        partition = self.site.partition
        log.info(
            "partition %d: %d of %d training points (%.1f%%) are vertices of hulls and would leave"
            " this client, each as its bin of a grid with epsilon = %g; the largest hull has %d",
            partition,
            local.num_revealed,
            local.num_points,
            100 * local.share_revealed,
            public.epsilon,
            local.largest,
        )
        if self.site.owns_data:
            data = self.points
            sizes = np.bincount(data.train_labels)
            shares = (
                f"{data.class_names[label]} {len(hull)} of {sizes[label]}"
                for hull, label in zip(local.hulls, local.classes, strict=True)
            )
            log.info("partition %d, by class: %s", partition, ", ".join(shares) or "none")
        if local.share_revealed > MAX_SHARE:
            log.warning(
                "partition %d: %.0f%% of its training points would leave it; %s",
                partition,
                100 * local.share_revealed,
                self._proposal(public),
            )
        if local.moved:
            log.warning(
                "partition %d: points beyond the public radius (hull.radius), moved onto it: %d",
                partition,
                local.moved,
            )
        if local.thinned:
            log.warning(
                "partition %d: vertices left out, as a hull may have at most %d (hull.cap): %d",
                partition,
                public.cap,
                local.thinned,
            )

    def _proposal(self, public: PublicParameters) -> str:
        """The smallest hull.epsilon, and its largest hull.cap, that let at most `MAX_SHARE` of the
        points leave, if fewer leave in wider bins."""
        caps = sorted({public.cap, min(public.cap, 8), min(public.cap, 6)}, reverse=True)
        epsilons = (public.epsilon * 2.0 ** np.arange(8)).tolist()

        def share_at(epsilon: float, cap: int) -> float:
            return self._hulls(replace(public, epsilon=epsilon, cap=cap)).share_revealed

        # A search by halves tries four of the grids, not all.
        place = bisect_left(
            epsilons, True, key=lambda epsilon: share_at(epsilon, caps[-1]) <= MAX_SHARE
        )
        if place == len(epsilons):
            return "it has too few points for hulls that hide any"
        epsilon = epsilons[place]
        shares = {cap: share_at(epsilon, cap) for cap in caps}
        cap = next(cap for cap, share in shares.items() if share <= MAX_SHARE)
        return (
            f"with hull.epsilon = {epsilon:g} and hull.cap = {cap} it would be"
            f" {100 * shares[cap]:.0f}%"
        )


def check_hull_counts(figures: Figures) -> None:
    """Refuse counts about a client's hulls that are incomplete or contradict each other; a client
    may send none.

    Raises
    ------
    MessageError
    """
    sent = [name for name in HULL_COUNTS if name in figures]
    if sent and len(sent) < len(HULL_COUNTS):
        raise MessageError(
            f"it sends {', '.join(sent)} of its hulls; allowed are {', '.join(HULL_COUNTS)}, or"
            " none",
            key="hull-counts",
        )
    if sent and max(figures["revealed"], figures["moved"]) > figures["points"]:
        raise MessageError(
            f"{figures['revealed']:g} points are revealed and {figures['moved']:g} moved of"
            f" {figures['points']:g}",
            key="hull-counts",
        )

"""A run of hulls: measure, sum the masked hulls, decode and group them, train, score."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.one_shot.hull_scores import (
    ServerPoints,
    hull_arrays,
    learn_settings,
    scores,
)
from curvfed.server_app.one_shot.hull_sums import sum_hulls
from curvfed.server_app.one_shot.one_shot_run import PROTOCOL, OneShotRun
from curvfed.server_app.phase import Phase
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.masked_phases import check_session, groups
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.figures import HULL_COUNTS
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.point_data import public_parameters
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.learn import learn
from curvfed.strategies.hull.naming import names_by_votes
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.methods.hull import Keys
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.messages import HULLS, MEASURE, Parts

log = logging.getLogger("curvfed")

MIN_GROUP = 3
"""Minimum number of clients in a group: each of two can compute the other's vector from the sum."""


class HullRun(OneShotRun):
    """A run of `method=hull`."""

    @property
    def keys(self) -> Keys:
        """The keys of the protocol."""
        keys: Keys = self.config.table("hull")
        return keys

    def _check_classes(self) -> None:
        """Refuse classes that a sum of hulls cannot have."""
        classes = len(self.federation.facts.class_names)
        keys = self.keys
        if classes < 2:
            raise ConfigError(
                f"classes of all clients: {classes}; at least 2 are needed", key="too-few-classes"
            )
        if keys.num_classes not in (None, classes):
            raise ConfigError(
                f"hull.num-classes = {keys.num_classes}, but the clients name {classes}; allowed"
                f" are {classes} and auto",
                key="num-classes",
            )
        names_of_clients = [
            set(description.class_names)
            for description in self.federation.descriptions.values()
            if description.class_names
        ]
        if len(names_of_clients) > 1 and sum(map(len, names_of_clients)) == classes:
            raise ConfigError(
                f"the clients' {classes} classes have no name in common; if clients use different"
                " names for the same class, give hull.num-classes",
                key="class-names",
            )
        if all(len(names) < classes for names in names_of_clients):
            log.warning(
                "no client names all %d classes; if clients use different names for the same class,"
                " give hull.num-classes",
                classes,
            )
        if keys.grouping == "kernighan-lin" and classes != 2:
            raise ConfigError(
                f'hull.grouping = "kernighan-lin" makes 2 groups, and there are {classes} classes;'
                " allowed are assignment and spectral",
                key="grouping",
            )

    def _public_parameters(self, num_clients: int) -> PublicParameters:
        """The public parameters of a sum over this number of clients."""
        return public_parameters(
            self.keys, self.config.points, len(self.federation.facts.class_names), num_clients
        )

    def _groups(self, clients: Sequence[int]) -> list[Sequence[int]]:
        """The clients of each sum."""
        if len(clients) < 2:
            raise ConfigError(
                f"{len(clients)} client can take part; a sum over fewer than 2 hides nothing",
                key="too-few-clients",
            )
        if self.keys.groups > 1 and len(clients) < MIN_GROUP * self.keys.groups:
            raise ConfigError(
                f"hull.groups = {self.keys.groups}: {len(clients)} clients can take part, and a"
                f" group needs {MIN_GROUP}; allowed are 1 to {max(len(clients) // MIN_GROUP, 1)}",
                key="too-few-clients",
            )
        return groups(clients, self.keys.groups)

    def _sum(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The hulls of all clients, by secure sums; None for a dry run."""
        parts: dict[int, Parts] = {}
        self._check_classes()
        for group in self._groups(list(self.federation.nodes)):
            public = self._public_parameters(len(group))
            check_session(self.header(HULLS, PROTOCOL), group, self.sums)
            parts |= {
                partition: {"clients": len(group), "digest": public.digest} for partition in group
            }
        measured = self._ask(
            self.header(MEASURE, PROTOCOL), parts, lambda reply: check_hull_counts(reply.metrics)
        )
        self._record_revealed(measured)
        able = sorted(measured.replies)
        needed = max(2, self.config.min_replies)
        if len(able) < needed:
            raise RoundError(
                f"{len(able)} of {len(measured.seconds)} clients can take part, needed are {needed}"
                f" (min-replies, and 2 for a sum that hides anything). {measured.failure_summary}",
                key="too-few-replies",
            )
        client_groups = self._groups(able)
        public = self._public_parameters(max(map(len, client_groups)))
        log.info(
            "epsilon = %g: %d bins, sums modulo %d; every client sends %d numbers; %s all"
            " hulls, but not which client of a group has which",
            public.epsilon,
            public.quantizer.num_bins,
            public.prime,
            public.length,
            "1 sum shows" if len(client_groups) == 1 else f"{len(client_groups)} sums show",
        )
        if self.keys.dry_run:
            log.info(
                "hull.dry-run = true: %d clients have reported, and nothing else was sent",
                len(able),
            )
            return None
        hulls, summed, figures = sum_hulls(
            self._ask,
            self.header(HULLS, PROTOCOL),
            client_groups,
            self._public_parameters,
            self.sums,
        )
        # A client that drops out after its vector is summed counts as a dropout too.
        self.metrics |= figures | {"dropouts": len(self.federation.nodes) - self._unmasked}
        arrays = {
            "bins": np.concatenate([np.zeros(0, np.uint64), *hulls.bins]),
            "sizes": np.array(list(map(len, hulls.bins)), np.int64),
            "clients": hulls.clients,
        }
        return arrays, {
            "agreed": {"clients": public.num_clients, "classes": public.num_classes},
            "summed": summed,
        }

    def _finish(
        self, arrays: Arrays, metadata: Mapping[str, Any], server_points: ServerPoints
    ) -> None:
        """Group and train without labels, then score with the labels."""
        started = time.monotonic()
        agreed = metadata["agreed"]
        public = public_parameters(
            self.keys, self.config.points, agreed["classes"], agreed["clients"]
        )
        hulls = DecodedHulls(
            np.split(arrays["bins"], np.cumsum(arrays["sizes"]))[:-1], arrays["clients"]
        )
        try:
            model = learn(hulls, public, learn_settings(self.keys, self.config.seed))
        except ValueError as error:
            raise RoundError(str(error), key="unlearnable") from None
        seconds = time.monotonic() - started
        self.state.add(seconds_aggregation=seconds + self.metrics["seconds_decoding"])
        log.info(
            "%d hulls of %d clients in %d groups; C = %g  %.2f s",
            len(hulls.bins),
            len(np.unique(hulls.clients)),
            public.num_classes,
            model.classifier.c,
            seconds,
        )
        arrays_of_model = model.classifier.arrays()
        votes = self._score(arrays_of_model)
        scored = scores(
            model, server_points, metadata["summed"], public, self.keys, self.config.seed
        )
        if not all(scored.group_names):  # no test points, or none of a class
            classes = self.federation.facts.class_names
            is_free = np.outer(
                [not name for name in scored.group_names], ~np.isin(classes, scored.group_names)
            )
            voted_names, scored.metrics["votes_agreed"] = names_by_votes(votes * is_free, classes)
            both = zip(scored.group_names, voted_names, strict=True)
            scored = replace(scored, group_names=tuple(tested or voted for tested, voted in both))
        self.metrics |= scored.metrics
        self.state.scored["last"] = [scored.accuracy] if scored.accuracy is not None else []
        self.is_scored = True
        self.warn()
        self._write_model(arrays_of_model, scored.group_names)
        content = hull_arrays(model, server_points, scored, public)
        content |= {"votes": votes, "voted_names": np.array(self.federation.facts.class_names)}
        write_npz(self.directory.path / "hulls.npz", content)

    def _record_revealed(self, measured: Phase) -> None:
        """Record the number of points that hulls reveal, if all clients report it."""
        figures = [
            reply.metrics for reply in measured.replies.values() if "points" in reply.metrics
        ]
        if len(figures) < len(measured.replies) or not figures:
            return
        points = int(sum(counts["points"] for counts in figures))
        revealed = int(sum(counts["revealed"] for counts in figures))
        self.metrics |= {
            "hull_points": points,
            "hull_points_shared": revealed,
            "hull_share_revealed": revealed / points if points else 0.0,
            "hull_points_moved": int(sum(counts["moved"] for counts in figures)),
            "hull_vertices_thinned": int(sum(counts["thinned"] for counts in figures)),
            "clients_mostly_sent": sum(
                2 * counts["revealed"] > counts["points"] for counts in figures
            ),
        }
        log.info(
            "%d of %d training points (%.1f%%) are vertices of hulls",
            revealed,
            points,
            100 * revealed / max(points, 1),
        )


def check_hull_counts(metrics: Mapping[str, float]) -> None:
    """Refuse counts about a client's hulls that are incomplete or contradict each other; a client
    may send none.

    Raises
    ------
    MessageError
    """
    sent = [name for name in HULL_COUNTS if name in metrics]
    if not sent:
        return
    if len(sent) < len(HULL_COUNTS):
        raise MessageError(
            f"it sends {', '.join(sent)} of its hulls; allowed are {', '.join(HULL_COUNTS)}, or"
            " none",
            key="hull-counts",
        )
    if max(metrics["revealed"], metrics["moved"]) > metrics["points"]:
        raise MessageError(
            f"{metrics['revealed']:g} points are revealed and {metrics['moved']:g} moved of"
            f" {metrics['points']:g}",
            key="hull-counts",
        )

"""A one-shot run: measure, sum the hulls in secret, decode them, group them, train, score. There are no rounds."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from io import BytesIO
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from curvfed.server_app.directory.checkpoint import identity, with_facts
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.one_shot.group_names import named_by
from curvfed.server_app.one_shot.hull_scores import KnownPoints, hull_arrays, learn_settings, scores, sweep
from curvfed.server_app.one_shot.hull_sums import sum_hulls
from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.run_warnings import told_of_clients
from curvfed.server_app.secure.masked_phases import check_session, groups, masked_phase
from curvfed.server_app.secure.secure_sum import SumsOfRun
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import point_spec, public_parameters
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.learn import learn
from curvfed.strategies.hull.naming import FALLEN, VOTES
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.methods.hull import Keys
from curvfed.strategies.wire.checks import check_hull_metrics, check_votes
from curvfed.strategies.wire.messages import EVALUATE, HULLS, MEASURE, UNMASK, Header, Parts
from curvfed.strategies.wire.store import Store, StoreError
from curvfed.tasks.atomic_file import write_atomically

log = logging.getLogger("curvfed")

PROTOCOL, EVALUATION = 0, 1
"""Round numbers in the messages. A resumed run drops the rows of the second, and asks for the scores again."""

DECODED = 1
"""Stamp of the stored hulls. A resumed run reads them and does not ask the clients to reveal anything again."""


LEAST = 3
"""Clients in a group: of two, each can compute the other's vector from the sum."""


class HullRun(Run):
    """A one-shot run."""

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        super().__init__(config, grid, directory)
        self.keys: Keys = config.table("hull")
        self.sums = SumsOfRun(config, config.secure)
        self.metrics: dict[str, Any] = {}
        self.summed: list[int] = []
        self._unmasked = 0
        self._store = Store(directory.path / "checkpoint" / "hulls")

    def run(self) -> None:
        """Meet the clients, sum their hulls, train, score, store.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.connect()
        spec = point_spec(self.config, self.config.points)
        known = KnownPoints.read(
            spec, self.config.test_data, self.federation
        )  # before the clients are asked to reveal anything
        hulls = self._stored() if self.config.resume else None
        self.directory.start_writing(PROTOCOL if hulls else PROTOCOL - 1)
        self.directory.write_clients(self.federation.record())
        self.sinks.start()
        if hulls is None:
            hulls = self._sum_hulls()
        if hulls is not None:
            self._learn(hulls, known)
        self.clock()

    def own_settings(self) -> dict[str, Any]:
        """None: every setting of this run is a key."""
        return {}

    def own_metrics(self) -> dict[str, Any]:
        """Figures of the protocol, the hulls and the baselines."""
        return self.metrics

    def _warnings(self) -> dict[str, str]:
        return super()._warnings() | told_of_clients(self.metrics)

    def _check_classes(self) -> None:
        """Refuse classes that no sum is possible over."""
        classes, keys = len(self.federation.facts.class_names), self.keys
        if classes < 2:
            raise ConfigError(f"classes of all clients: {classes}; at least 2 are needed")
        if keys.num_classes not in (None, classes):
            raise ConfigError(
                f"hull.num-classes = {keys.num_classes}, but the clients name {classes}; allowed are {classes} and auto"
            )
        named = [set(about.class_names) for about in self.federation.descriptions.values() if about.class_names]
        if len(named) > 1 and sum(map(len, named)) == classes:
            raise ConfigError(
                f"the clients' {classes} classes have no name in common; if clients use different names for the same "
                "class, give hull.num-classes"
            )
        if all(len(names) < classes for names in named):
            log.warning(
                "no client names all %d classes; if clients use different names for the same class, give hull.num-classes",
                classes,
            )
        if keys.grouping == "kernighan-lin" and classes != 2:
            raise ConfigError(
                f'hull.grouping = "kernighan-lin" makes 2 groups, and there are {classes} classes; allowed are assignment '
                "and spectral"
            )

    def _public_parameters(self, num_clients: int) -> PublicParameters:
        """Of a sum over that many clients, from the configuration and the clients' descriptions."""
        return public_parameters(self.keys, self.config.points, len(self.federation.facts.class_names), num_clients)

    def _groups(self, clients: Sequence[int]) -> list[Sequence[int]]:
        """The clients of each sum."""
        if len(clients) < 2:
            raise ConfigError(f"{len(clients)} client can take part; a sum over fewer than 2 hides nothing")
        if self.keys.groups > 1 and len(clients) < LEAST * self.keys.groups:
            raise ConfigError(
                f"hull.groups = {self.keys.groups}: {len(clients)} clients can take part, and a group needs {LEAST}; "
                f"allowed are 1 to {max(len(clients) // LEAST, 1)}"
            )
        return groups(clients, self.keys.groups)

    def _sum_hulls(self) -> DecodedHulls | None:
        """All clients' hulls, by secure sums; None if the run is to stop before them."""
        parts: dict[int, Parts] = {}
        self._check_classes()
        for group in self._groups(list(self.federation.nodes)):
            public = self._public_parameters(len(group))
            check_session(self.header(HULLS, PROTOCOL), group, self.sums)
            parts |= {partition: {"clients": len(group), "digest": public.digest} for partition in group}
        measured = self._ask(self.header(MEASURE, PROTOCOL), parts, lambda reply: check_hull_metrics(reply.metrics))
        self._record_revealed(measured)
        able, needed = sorted(measured.replies), max(2, self.config.min_replies)
        if len(able) < needed:
            raise RoundError(
                f"{len(able)} of {len(measured.seconds)} clients can take part, needed are {needed} (min-replies, and "
                f"2 for a sum that hides anything). {measured.failure_summary}"
            )
        parted = self._groups(able)
        self.public = public = self._public_parameters(max(map(len, parted)))
        log.info(
            "epsilon = %g: %d bins, sums modulo %d; every client sends %d numbers; %d sums show all hulls, but not which "
            "client of a group has which",
            public.epsilon, public.quantizer.num_bins, public.prime, public.length, len(parted),
        )  # fmt: skip
        if self.keys.dry_run:
            log.info("hull.dry-run = true: %d clients have reported, and nothing else was sent", len(able))
            return None
        found = sum_hulls(self._ask, self.header(HULLS, PROTOCOL), parted, self._public_parameters, self.sums)
        hulls, self.summed = found.hulls, found.summed
        # A client that vanished after its vector was summed is a dropout, too.
        self.metrics |= {
            "clients_summed": len(self.summed),
            "clients_decoded": len(np.unique(hulls.clients)),
            "clients_refused": found.refused,
            "groups_left_out": found.lost,
            "dropouts": len(self.federation.nodes) - self._unmasked,
            "seconds_decoding": found.seconds,
        }
        self.clock()
        arrays = {
            "bins": np.concatenate([np.zeros(0, np.uint64), *hulls.bins]),
            "sizes": np.array(list(map(len, hulls.bins)), np.int64),
            "clients": hulls.clients,
        }
        about = {
            "before": identity(self.federation),
            "agreed": {"clients": public.num_clients, "classes": public.num_classes},
            "summed": self.summed,
            "metrics": self.metrics,
            "totals": self.state.totals,
        }
        self._store.save(DECODED, arrays, about, durable=True)
        self.sinks.flush()
        return hulls

    def _loaded(self) -> tuple[Arrays, dict[str, Any]] | None:
        """What this run has stored of the sums, arrays and what goes with them; None if it did not get that far."""
        try:
            arrays, metadata = self._store.load(DECODED)
        except StoreError as error:
            if DECODED in self._store.stamps():
                raise ConfigError(
                    f"resume = true: {error}; restore the file, or start again with another run-name"
                ) from None
            return None
        self.federation = with_facts(self.federation, metadata["before"])
        self.metrics, self.state.totals = metadata["metrics"], metadata["totals"]
        return arrays, metadata

    def _stored(self) -> DecodedHulls | None:
        """The hulls that this run has decoded before; None if it did not get that far."""
        if (found := self._loaded()) is None:
            log.info("no hulls yet: starting anew")
            return None
        arrays, metadata = found
        agreed, self.summed = metadata["agreed"], metadata["summed"]
        self.public = public_parameters(self.keys, self.config.points, agreed["classes"], agreed["clients"])
        log.info("resuming with the hulls that were decoded before")
        return DecodedHulls(np.split(arrays["bins"], np.cumsum(arrays["sizes"]))[:-1], arrays["clients"])

    def _learn(self, hulls: DecodedHulls, known: KnownPoints) -> None:
        """Group and train without labels; then use the labels to score."""
        started = time.monotonic()
        try:
            learned = learn(hulls, self.public, learn_settings(self.keys, self.config.seed))
        except ValueError as error:
            raise RoundError(str(error)) from None
        seconds = time.monotonic() - started
        self.state.add(seconds_aggregation=seconds + self.metrics["seconds_decoding"])
        log.info("%d hulls of %d clients in %d groups; C = %g  %.2f s", len(hulls.bins), len(np.unique(hulls.clients)),
                 self.public.num_classes, learned.classifier.c, seconds)  # fmt: skip
        arrays = learned.classifier.arrays()
        votes = self._score(arrays)
        found = scores(learned, known, self.summed, self.public, self.keys, self.config.seed)
        if not all(found.group_names):  # test points may be absent, or lack a class
            classes = self.federation.facts.class_names
            is_free = np.outer([not name for name in found.group_names], ~np.isin(classes, found.group_names))
            names, found.metrics["votes_agreed"] = named_by(votes * is_free, classes)
            both = zip(found.group_names, names, strict=True)
            found = replace(found, group_names=tuple(known or voted for known, voted in both))
        self.metrics |= found.metrics
        self.warn()
        self.state.scored["last"] = [found.accuracy] if found.accuracy is not None else []
        about = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {},
            "last_round": 0,
            "groups": list(found.group_names),
        }
        self.directory.write_model(arrays, about)
        content = hull_arrays(learned, known, found, self.public)
        content |= {"votes": votes, "voted_names": np.array(self.federation.facts.class_names)}
        self._write(content)
        if self.keys.sweep:
            self._write(content | sweep(known, self.keys, self.config.points, self.config.seed))

    def _score(self, arrays: Arrays) -> NDArray[np.float64]:
        """Ask the clients how good the classifier is, and for names of the groups, each for itself or by their sum.

        Returns
        -------
        array (groups, classes)
            How many clients give a group the name of a class.
        """
        header, clients = self.header(EVALUATE, EVALUATION), list(self.federation.nodes)
        votes = np.zeros((int(arrays["groups"][-1]) + 1, len(self.federation.facts.class_names)))
        if not self.config.secure_sum:
            parts: dict[int, Parts] = {partition: {} for partition in clients}
            scored = self._ask(header, parts, lambda reply: check_votes(reply.arrays[VOTES], reply.arrays[FALLEN]),
                               {VOTES: votes, FALLEN: np.zeros(1)}, arrays)  # fmt: skip
            self.state.latest = {p: dict(measured) for p, measured in scored.scores.items() if measured}
            self.metrics["clients_fallen"] = int(sum(reply.arrays[FALLEN][0] for reply in scored.replies.values()))
            return sum((reply.arrays[VOTES] for reply in scored.replies.values()), votes)

        def ask(header: Header, parts: Mapping[int, Parts], check: Check, awaited: Arrays | None = None) -> Phase:
            return self._ask(header, parts, check, awaited, arrays if awaited else None)

        scored, total = masked_phase(ask, header, clients, self.sums, votes.size + 1)
        self.state.cohort = dict(scored.cohort or {})
        self.metrics["clients_fallen"] = int(np.rint(total.values[-1]))
        return np.rint(total.values[:-1]).reshape(votes.shape)

    def _write(self, content: dict[str, Any]) -> None:
        file = BytesIO()
        np.savez_compressed(file, **content)
        write_atomically(self.directory.path / "hulls.npz", file.getvalue(), private=True)

    def _record_revealed(self, measured: Phase) -> None:
        """Record how many points the hulls reveal, if all clients tell it."""
        figures = [reply.metrics for reply in measured.replies.values() if "points" in reply.metrics]
        if len(figures) < len(measured.replies) or not figures:
            return
        points, revealed, moved, thinned = (
            int(sum(one[name] for one in figures)) for name in ("points", "revealed", "moved", "thinned")
        )
        self.metrics |= {
            "hull_points": points,
            "hull_points_shared": revealed,
            "hull_share_revealed": revealed / points if points else 0.0,
            "hull_points_moved": moved,
            "hull_vertices_thinned": thinned,
        }
        log.info(
            "%d of %d training points (%.1f%%) are vertices of hulls", revealed, points, 100 * revealed / max(points, 1)
        )

    def _ask(
        self,
        header: Header,
        parts: Mapping[int, Parts],
        check: Check | None = None,
        awaited: Arrays | None = None,
        arrays: Arrays | None = None,
    ) -> Phase:
        """Send a phase and record it."""
        started = time.monotonic()
        letters = {
            partition: ClientRequest(arrays=arrays or {}, parts=one, awaited=awaited or {})
            for partition, one in parts.items()
        }
        phase = self.send(header, letters, check)
        name, seconds = header.phase, time.monotonic() - started
        self._unmasked += len(phase.replies) * (name == UNMASK)
        row = phase.row(self.federation) | {"seconds": seconds}
        self.record(phase, row, {})
        for what, value in (("seconds", seconds), ("bytes_up", row["bytes_up"]), ("bytes_down", row["bytes_down"])):
            self.metrics[f"{what}_{name}"] = self.metrics.get(f"{what}_{name}", 0) + value
        log.info("%s: %d of %d clients  %.2f s", name, len(phase.replies), len(parts), seconds)
        return phase

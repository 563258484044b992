"""A one-shot run: measure, sum the hulls in secret, decode, group, train, score. There are no rounds."""

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from curvfed.server_app.directory.checkpoint import identity, with_facts
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.one_shot.hull_scores import Known, hull_arrays, learn_settings, scores, sweep
from curvfed.server_app.phase import ClientRequest, Phase
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.secure.secure_sum import Check, check_session, secure_sum
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import public
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull.codec import decode_hulls
from curvfed.strategies.hull.errors import HullError
from curvfed.strategies.hull.learn import learn
from curvfed.strategies.hull.public import Public
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.checks import check_hull_metrics
from curvfed.strategies.wire.messages import EVALUATE, HULLS, MEASURE, Header, Parts
from curvfed.strategies.wire.store import Store, StoreError
from curvfed.tasks.atomic_file import write_atomically

log = logging.getLogger("curvfed")

Hulls = list[list[NDArray[np.uint64]]]

PROTOCOL, EVALUATION = 0, 1
"""Rounds of the messages: a resumed run drops the rows of the second and asks again."""

DECODED = 1
"""Stamp of the decoded hulls, which a resumed run takes up: nobody is asked to reveal anything again."""


class HullRun(Run):
    """A run of one shot."""

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        super().__init__(config, grid, directory)
        self.metrics: dict[str, Any] = {}
        self.summed: list[int] = []
        self._answered = 0
        self._store = Store(directory.path / "checkpoint" / "hulls")

    def run(self) -> None:
        """Meet, sum, train, score, store.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.connect()
        known = Known.of(self.config, self.federation)  # a test set that cannot be read costs nobody a secret
        found = self._stored() if self.config.resume else None
        self.directory.start_writing(PROTOCOL if found else PROTOCOL - 1)
        self.directory.write_clients(self.federation.record())
        self.sinks.start()
        if found is None:
            found = self._protocol()
        if found is not None:
            self._learn(found, known)
        self.clock()

    def own_settings(self) -> dict[str, Any]:
        """Nothing that is no key."""
        return {}

    def own_metrics(self) -> dict[str, Any]:
        """Figures of the protocol, the hulls and the baselines."""
        return self.metrics

    def _agree(self, num_clients: int) -> Public:
        """The public values, from what all know."""
        if num_clients < 2:
            raise ConfigError(f"{num_clients} client can take part; a sum hides nothing of fewer than 2")
        classes, keys = len(self.federation.facts.class_names), self.config.hull
        if classes < 2:
            raise ConfigError(f"classes of all clients: {classes}; at least 2 are needed to tell them apart")
        if keys.num_classes not in (None, classes):
            raise ConfigError(
                f"hull.num-classes = {keys.num_classes}, but the clients name {classes}; allowed is auto, too"
            )
        told = [set(about.class_names) for about in self.federation.descriptions.values() if about.class_names]
        if len(told) > 1 and sum(map(len, told)) == classes:
            raise ConfigError(
                f"the clients' {classes} classes have no name in common; where they call the same classes by different "
                "names, give hull.num-classes"
            )
        if all(len(names) < classes for names in told):
            log.warning(
                "no client has all %d classes by name; where they call the same ones differently, give hull.num-classes",
                classes,
            )
        if keys.grouping == "kernighan-lin" and classes != 2:
            raise ConfigError(
                f'hull.grouping = "kernighan-lin" makes 2 groups, and there are {classes} classes; allowed are assignment '
                "and spectral"
            )
        return public(self.config, classes, num_clients)

    def _protocol(self) -> Hulls | None:
        """The clients' hulls by the secure sum; None where the run is to stop before it."""
        self.public = self._agree(len(self.federation.nodes))
        check_session(self.header(HULLS, PROTOCOL), list(self.federation.nodes), self.config)
        told = {"clients": self.public.num_clients, "digest": self.public.digest}
        measured = self._ask(
            self.header(MEASURE, PROTOCOL),
            dict.fromkeys(self.federation.nodes, told),
            lambda reply: check_hull_metrics(reply.metrics),
        )
        self._note_revealed(measured)
        able, needed = sorted(measured.replies), max(2, self.config.min_replies)
        if len(able) < needed:
            raise RoundError(
                f"{len(able)} of {len(measured.seconds)} clients can take part, needed are {needed} (min-replies, and "
                f"2 for a sum that hides anything). {measured.failure_summary}"
            )
        self.public = self._agree(len(able))
        values = self.public
        log.info(
            "epsilon = %g: %d bins, sums modulo %d; every client sends %d numbers, the sum tells of them all hulls and of "
            "no hull whose it is", values.epsilon, values.quantizer.num_bins, values.prime, values.length,
        )  # fmt: skip
        if self.config.hull.dry_run:
            log.info("hull.dry-run = true: %d clients have reported, and nothing else was sent", len(able))
            return None
        try:
            phase, total = secure_sum(
                self._ask, self.header(HULLS, PROTOCOL), able, values.prime, values.length, self.config
            )
        except SecureSumError as error:
            raise RoundError(f"the secure sum ends without a result: {error}") from None
        self.metrics |= {
            "clients_summed": len(phase.replies),
            "dropouts": len(self.federation.nodes)
            - self._answered,  # those too who vanished with their vector in the sum
        }
        self.summed = sorted(phase.replies)
        started = time.monotonic()
        try:
            hulls = decode_hulls(total, values)
        except HullError as error:
            raise RoundError(str(error)) from None
        self.metrics["seconds_decoding"] = time.monotonic() - started
        self.clock()
        agreed = {"clients": values.num_clients, "classes": values.num_classes}
        about = {
            "before": identity(self.federation),
            "agreed": agreed,
            "summed": self.summed,
            "metrics": self.metrics,
            "totals": self.state.totals,
        }
        self._store.save(DECODED, _packed(hulls), about, durable=True)
        self.sinks.flush()
        return hulls

    def _stored(self) -> Hulls | None:
        """The hulls that this run has decoded before; None if it has not come so far."""
        try:
            arrays, metadata = self._store.load(DECODED)
        except StoreError as error:
            if DECODED in self._store.stamps():
                raise ConfigError(
                    f"resume = true: {error}; bring it back, or begin anew with another run-name"
                ) from None
            log.info("no hulls yet: starting anew")
            return None
        self.federation = with_facts(self.federation, metadata["before"])
        agreed = metadata["agreed"]
        self.public = public(self.config, agreed["classes"], agreed["clients"])
        self.metrics, self.state.totals, self.summed = (metadata[name] for name in ("metrics", "totals", "summed"))
        log.info("resuming with the hulls that were decoded before")
        return _unpacked(arrays)

    def _learn(self, hulls: Hulls, known: Known) -> None:
        """Group, train, and only then look at labels, to score."""
        started = time.monotonic()
        settings = learn_settings(self.config)
        try:
            learned = learn(hulls, self.public, settings)
        except ValueError as error:
            raise RoundError(str(error)) from None
        seconds = time.monotonic() - started
        self.state.add(seconds_aggregation=seconds + self.metrics["seconds_decoding"])
        log.info("%d hulls of %d clients in %d groups; C = %g  %.2f s", len(np.unique(learned.hulls)), len(hulls),
                 self.public.num_classes, learned.classifier.c, seconds)  # fmt: skip
        arrays = learned.classifier.arrays()
        told = self._ask(self.header(EVALUATE, EVALUATION), {p: {} for p in self.federation.nodes}, arrays=arrays)
        self.state.latest = {p: dict(measured) for p, measured in told.scores.items() if measured}
        found = scores(learned, known, self.summed, self.public, self.config)
        self.metrics |= found.metrics
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
        self._write(content)
        if self.config.hull.sweep:
            self._write(content | sweep(known, self.config))

    def _write(self, content: dict[str, Any]) -> None:
        file = BytesIO()
        np.savez_compressed(file, **content)
        write_atomically(self.directory.path / "hulls.npz", file.getvalue())

    def _note_revealed(self, measured: Phase) -> None:
        """How much of the points is told by their hulls, where all clients tell that."""
        told = [reply.metrics for reply in measured.replies.values() if "points" in reply.metrics]
        if len(told) < len(measured.replies) or not told:
            return
        points, revealed = (sum(one[name] for one in told) for name in ("points", "revealed"))
        self.metrics |= {
            "hull_points": int(points),
            "hull_points_shared": int(revealed),
            "hull_share_revealed": revealed / points if points else 0.0,
            "hull_points_moved": int(sum(one["moved"] for one in told)),
            "hull_vertices_thinned": int(sum(one["thinned"] for one in told)),
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
        """One phase, recorded."""
        started = time.monotonic()
        letters = {
            partition: ClientRequest(arrays=arrays or {}, parts=one, awaited=awaited or {})
            for partition, one in parts.items()
        }
        phase = self.send(header, letters, check)
        name, seconds, self._answered = header.phase, time.monotonic() - started, len(phase.replies)
        row = phase.row(self.federation) | {"seconds": seconds}
        self.record(phase, row, {})
        self.metrics |= {
            f"seconds_{name}": seconds,
            f"bytes_up_{name}": row["bytes_up"],
            f"bytes_down_{name}": row["bytes_down"],
        }
        log.info("%s: %d of %d clients  %.2f s", name, len(phase.replies), len(parts), seconds)
        return phase


def _packed(hulls: Hulls) -> dict[str, NDArray[Any]]:
    """Hulls as arrays: all bins, and of each hull its size and its client."""
    flat = [hull for client in hulls for hull in client]
    return {
        "bins": np.concatenate([np.zeros(0, np.uint64), *flat]),
        "sizes": np.array([len(hull) for hull in flat], np.int64),
        "clients": np.repeat(np.arange(len(hulls)), [len(client) for client in hulls]),
    }


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> Hulls:
    """Inverse of `_packed`."""
    hulls = np.split(arrays["bins"], np.cumsum(arrays["sizes"])[:-1])
    clients = arrays["clients"]
    return [[hulls[i] for i in np.flatnonzero(clients == one)] for one in np.unique(clients)]

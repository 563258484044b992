"""A one-shot run: one secure sum, what the server learns from it, and the clients' scores of that.
There are no rounds."""

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from curvfed.server_app.directory.checkpoint import identity, with_facts
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.one_shot.hull_scores import KnownPoints
from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.run import Run
from curvfed.server_app.run_warnings import told_of_clients
from curvfed.server_app.secure.masked_phases import masked_phase
from curvfed.server_app.secure.secure_sum import SumsOfRun
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import point_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull.naming import FALLEN, VOTES
from curvfed.strategies.wire.checks import check_votes
from curvfed.strategies.wire.messages import EVALUATE, UNMASK, Header, Parts
from curvfed.strategies.wire.store import Store, StoreError

log = logging.getLogger("curvfed")

PROTOCOL = 0
EVALUATION = 1
"""Round numbers in the messages. A resumed run drops the rows of the second, and asks for the
scores again."""

SUMMED = 1
"""Stamp of the stored sum. A resumed run reads it and does not ask the clients to reveal anything
again."""


class OneShotRun(Run):
    """A one-shot run."""

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        super().__init__(config, grid, directory)
        self.sums = SumsOfRun(config, config.secure)
        self.metrics: dict[str, Any] = {}
        self._unmasked = 0
        self._store = Store(directory.path / "checkpoint" / "hulls")

    @abstractmethod
    def _sum(self) -> tuple[Arrays, dict[str, Any]] | None:
        """What the clients' sum gives, and what else a resumed run needs; None if the run is to
        stop before it."""

    @abstractmethod
    def _finish(self, arrays: Arrays, about: Mapping[str, Any], known: KnownPoints) -> None:
        """Learn from what `_sum` gave, score, write."""

    def run(self) -> None:
        """Meet the clients, sum, learn, score, store.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.connect()
        # Before the clients are asked to reveal anything.
        known = KnownPoints.read(
            point_spec(self.config, self.config.points), self.config.test_data, self.federation
        )
        found = self._loaded() if self.config.resume else None
        self.directory.start_writing(PROTOCOL if found else PROTOCOL - 1)
        self.directory.write_clients(self.federation.record())
        self.sinks.start()
        if found is None and (found := self._sum()):
            self.clock()
            arrays, about = found
            about |= {
                "before": identity(self.federation),
                "metrics": self.metrics,
                "totals": self.state.totals,
            }
            self._store.save(SUMMED, arrays, about, durable=True)
            self.sinks.flush()
        if found is not None:
            self._finish(*found, known)
        self.clock()

    def _write_model(self, arrays: Arrays, groups: Sequence[str] = ()) -> None:
        """`model.safetensors`, with the names of the groups that the classifier tells apart."""
        about = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {},
            "last_round": 0,
            "groups": list(groups),
        }
        self.directory.write_model(arrays, about)

    def own_settings(self) -> dict[str, Any]:
        """None: every setting of this run is a key."""
        return {}

    def own_metrics(self) -> dict[str, Any]:
        """Figures of the protocol and the hulls."""
        return self.metrics

    def _warnings(self) -> dict[str, str]:
        return super()._warnings() | told_of_clients(self.metrics)

    def _loaded(self) -> tuple[Arrays, dict[str, Any]] | None:
        """What this run has stored of the sum, as `_sum` gave it; None if it did not get that
        far.
        """
        try:
            arrays, metadata = self._store.load(SUMMED)
        except StoreError as error:
            if SUMMED in self._store.stamps():
                raise ConfigError(
                    f"resume = true: {error}; restore the file, or start again with another"
                    " run-name"
                ) from None
            log.info("no sum yet: starting anew")
            return None
        log.info("resuming with what was summed before")
        self.federation = with_facts(self.federation, metadata["before"])
        self.metrics = metadata["metrics"]
        self.state.totals = metadata["totals"]
        return arrays, metadata

    def _score(self, arrays: Arrays) -> NDArray[np.float64]:
        """Ask the clients how good the classifier is, and for names of the groups, each for itself
        or by their sum.

        Returns
        -------
        array (groups, classes)
            How many clients give a group the name of a class.
        """
        header = self.header(EVALUATE, EVALUATION)
        clients = list(self.federation.nodes)
        votes = np.zeros((int(arrays["groups"][-1]) + 1, len(self.federation.facts.class_names)))
        if not self.config.secure_sum:
            parts: dict[int, Parts] = {partition: {} for partition in clients}
            scored = self._ask(
                header,
                parts,
                lambda reply: check_votes(reply.arrays[VOTES], reply.arrays[FALLEN]),
                {VOTES: votes, FALLEN: np.zeros(1)},
                arrays,
            )
            self.state.latest = {
                p: dict(measured) for p, measured in scored.scores.items() if measured
            }
            self.metrics["clients_fallen"] = int(
                sum(reply.arrays[FALLEN][0] for reply in scored.replies.values())
            )
            return sum((reply.arrays[VOTES] for reply in scored.replies.values()), votes)

        def ask(
            header: Header, parts: Mapping[int, Parts], check: Check, awaited: Arrays | None = None
        ) -> Phase:
            return self._ask(header, parts, check, awaited, arrays if awaited else None)

        scored, total = masked_phase(ask, header, clients, self.sums, votes.size + 1)
        self.state.cohort = dict(scored.cohort or {})
        self.metrics["clients_fallen"] = int(np.rint(total.values[-1]))
        return np.rint(total.values[:-1]).reshape(votes.shape)

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
        name = header.phase
        seconds = time.monotonic() - started
        self._unmasked += len(phase.replies) * (name == UNMASK)
        row = phase.row(self.federation) | {"seconds": seconds}
        self.record(phase, row, {})
        for what, value in (
            ("seconds", seconds),
            ("bytes_up", row["bytes_up"]),
            ("bytes_down", row["bytes_down"]),
        ):
            self.metrics[f"{what}_{name}"] = self.metrics.get(f"{what}_{name}", 0) + value
        log.info("%s: %d of %d clients  %.2f s", name, len(phase.replies), len(parts), seconds)
        return phase

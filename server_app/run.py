"""The parts of every run: connecting the clients, sending and recording phases, figures for the
summary."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from flwr.serverapp import Grid

from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import summary
from curvfed.server_app.federation import Federation, connect
from curvfed.server_app.phase import Check, ClientRequest, Phase, run_phase
from curvfed.server_app.run_warnings import (
    ABSENCES,
    FALLS,
    LOST,
    REFUSED,
    note_lost,
    unmeasured,
    warnings,
)
from curvfed.server_app.sinks import Sinks
from curvfed.strategies.config.run_config import RunConfig, flatten, resolve_defaults
from curvfed.strategies.wire.messages import (
    CONFIRM,
    HULLS,
    KEYS,
    MEASURE,
    SHARES,
    TRAIN,
    UNMASK,
    Facts,
    Header,
)
from curvfed.strategies.wire.precision import EXACT
from curvfed.tasks.errors import KeyedError

log = logging.getLogger("curvfed")

WITHIN_ROUND = (TRAIN, KEYS, SHARES, CONFIRM, UNMASK, MEASURE, HULLS)
"""Phases whose messages count as the traffic of a round, or of a one-shot run."""


class RoundError(KeyedError, RuntimeError):
    """A round or protocol cannot finish; the checkpoint of the previous round stays."""

    area = "round"


def check_enough(phase: Phase, min_replies: int) -> None:
    """Refuse a phase with too few good replies.

    Raises
    ------
    RoundError
    """
    needed = min(min_replies, len(phase.seconds))
    if len(phase.replies) < needed:
        raise RoundError(
            f"round {phase.header.round}: {len(phase.replies)} good replies of"
            f" {len(phase.seconds)}, needed are {needed} (min-replies). {phase.failure_summary}",
            key="too-few-replies",
        )


class Run(ABC):
    """One run, from connecting the clients to the summary.

    Parameters
    ----------
    config : RunConfig
    grid : Grid
    directory : RunDirectory
    """

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        self.config = config
        self.grid = grid
        self.directory = directory
        self.state = State()
        self.sinks = Sinks(directory)
        self.federation = Federation({}, {}, Facts("", 0, ()), {})
        self.settings: dict[str, Any] = {}
        self.precision = EXACT
        self._counted = time.monotonic()
        self.is_scored = False  # whether no further score can come
        self._warned = {FALLS, ABSENCES, LOST, REFUSED}

    @abstractmethod
    def run(self) -> None:
        """Connect the clients, train, score, and store the model.

        Raises
        ------
        FederationError, RoundError, ConfigError
        """

    @abstractmethod
    def extra_metrics(self) -> dict[str, Any]:
        """Figures of this kind of run for the summary, by name."""

    @abstractmethod
    def extra_settings(self) -> dict[str, Any]:
        """Choices of this kind of run that are no configuration keys, by name."""

    def figures(self) -> dict[str, Any]:
        """The summary of the run so far; empty before the clients are connected."""
        if not self.federation.nodes:
            return {}
        figures = summary(
            self.config, self.state, self.federation, self.extra_metrics(), self.settings
        )
        warnings_by_key = self._warnings()
        figures["warnings"] = list(warnings_by_key.values())
        figures["warning_keys"] = list(warnings_by_key)
        return figures

    def connect(self) -> None:
        """Ask the clients for their data's descriptions, and resolve the keys without a value."""
        # After a restart of the SuperLink the clients of the earlier run reconnect one by one.
        expected = self.directory.partitions() if self.config.resume else []
        self.federation = connect(self.grid, self.config, self.directory.name, expected)
        if not any(
            description.partition_digest for description in self.federation.descriptions.values()
        ):
            self.config = self.directory.note_own_data()
        before = flatten(self.config)
        self.config = resolve_defaults(self.config, self.federation.facts.task)
        chosen = flatten(self.config) | self.extra_settings()
        self.settings = {key: value for key, value in chosen.items() if value != before[key]}
        self.warn()

    def warn(self) -> None:
        """Log the warnings that are new."""
        for key, text in self._warnings().items():
            if key not in self._warned:
                log.warning("%s", text)
                self._warned.add(key)

    def _warnings(self) -> dict[str, str]:
        at_end = unmeasured(self.federation, self.state) if self.is_scored else {}
        return warnings(self.config, self.federation, self.state) | at_end

    def header(self, phase: str, number: int = 0) -> Header:
        """The header of a phase's messages."""
        return Header(self.directory.name, phase, number)

    def send(
        self,
        header: Header,
        requests: Mapping[int, ClientRequest],
        check: Check | None = None,
        on_reply: Callable[[int, int], None] | None = None,
    ) -> Phase:
        """Run one phase; see `run_phase`."""
        timeout = self.config.round_timeout
        return run_phase(
            self.grid,
            self.federation,
            header,
            requests,
            timeout,
            check=check,
            on_reply=on_reply,
            precision=self.precision,
        )

    def record(
        self,
        phase: Phase,
        row: Mapping[str, Any],
        weights: Mapping[int, float],
        in_round: bool = True,
    ) -> None:
        """Record a phase in the state and in the run directory; only phases `in_round` count as a
        round's traffic."""
        for partition, measured in phase.scores.items():
            if measured:
                self.state.latest[partition] = dict(measured)
        note_lost(self.state, phase)
        if phase.cohort:
            self.state.cohort = dict(phase.cohort)
        self.state.add(dropped=row["dropped"], seconds_training=row["seconds_training"])
        if in_round and phase.header.phase in WITHIN_ROUND:
            self.state.add(bytes_up=row["bytes_up"], bytes_down=row["bytes_down"])
        if phase.header.phase == TRAIN:
            self.state.add(rounds=1, seconds_aggregation=row["seconds_aggregation"])
        self.directory.append(row, phase.client_rows(weights))
        self.sinks.add(row)

    def clock(self) -> None:
        """Add the time since the last call to the run's seconds, which include those before a
        resume."""
        now = time.monotonic()
        self.state.add(seconds=now - self._counted)
        self._counted = now

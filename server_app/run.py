"""The parts of every run: connecting the clients, sending and recording phases, figures for the
summary."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flwr.serverapp import Grid

from curvfed.server_app.answer import Answer, personal_figures
from curvfed.server_app.client_history import note_lost
from curvfed.server_app.directory import append
from curvfed.server_app.directory.checkpoint import Checkpoint, State
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import summary
from curvfed.server_app.federation import Federation, connect
from curvfed.server_app.run_warnings import LOGGED_AT_ONCE, RunWarnings, at_the_end
from curvfed.server_app.sinks import sinks_class
from curvfed.strategies.base.aggregation import Aggregation, Average, global_model
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.build_method import model_spec
from curvfed.strategies.config.run_config import RunConfig, flatten, resolve_defaults
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.codec import EXACT
from curvfed.strategies.wire.messages import (
    AGREE,
    HOLDERS,
    HULLS,
    KEYS,
    MEASURE,
    TRAIN,
    Facts,
    Header,
    Holders,
)
from curvfed.tasks import plugins
from curvfed.tasks.errors import KeyedError

WITHIN_ROUND = (TRAIN, KEYS, AGREE, MEASURE, HOLDERS, HULLS)
"""Phases with messages that count as the traffic of a round, or of a one-shot run."""


ROUND_SILENCE = 1.0
PHASE_SILENCE = 5.0
"""Seconds without a line after which a round, or the replies of a slow phase, are logged."""


class RoundError(KeyedError, RuntimeError):
    """A round or protocol cannot finish; the checkpoint of the previous round stays."""

    area = "round"


def check_enough(answer: Answer, min_replies: int) -> None:
    """Refuse an answer with too few valid replies.

    Raises
    ------
    RoundError
    """
    needed = min(min_replies, len(answer.seconds))
    if len(answer.replies) < needed:
        raise RoundError(
            f"round {answer.header.round}: {len(answer.replies)} good replies of"
            f" {len(answer.seconds)}, needed are {needed} (min-replies). {answer.failure_summary}",
            key="too-few-replies",
        )


class Progress:
    """Logs the number of the round and of all rounds.

    Parameters
    ----------
    rounds : int
        Number of all rounds.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._said = time.monotonic()

    def say(self, number: int, text: str, silence: float = 0.0) -> None:
        """Log a line about a round, unless the last line is less than `silence` seconds old."""
        now = time.monotonic()
        if now - self._said >= silence:
            self._said = now
            place = {"rounds": (number, self.rounds)}  # by which a notebook knows the line
            log.info("round %d/%d  %s", number, self.rounds, text, extra=place)

    def count(self, header: Header, done: int, total: int) -> None:
        """Log the replies so far in a slow phase."""
        if time.monotonic() - self._said >= PHASE_SILENCE:
            self.say(header.round, f"{header.phase}: {done} of {total} clients")


class Run:
    """A run, as its loop and its callbacks share it.

    Parameters
    ----------
    config : RunConfig
    grid : Grid
    directory : RunDirectory

    Attributes
    ----------
    name : str
        Its name.
    requested : RunConfig
        The configuration that the run was started with; `config` has further values resolved.
    state : State
        The part of a checkpoint without arrays.
    federation : Federation
        Clients and facts; empty before `connect`.
    model : Aggregation
        The server's half of the method; empty before the first model.
    fixed : dict of str to array
        The parameters that the server sets once for all clients.
    calibrated : dict of str to array
        The classifier of a calibration after the last round.
    confusions : dict of partition to list of int
        Confusion counts of the last scores: flat triples of true class, predicted class and number
        of test examples.
    is_scored : bool
        Whether no further score can come.
    current_round : int
        The round that has begun last.
    """

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        self.config = config
        self.requested = config
        self.grid = grid
        self.directory = directory
        self.name = directory.name
        self.state = State()
        self.sinks = sinks_class()(directory)
        self.federation = Federation({}, {}, Facts("", 0, ()), {})
        self.settings: dict[str, Any] = {}
        self.precision = EXACT
        self.model: Aggregation = Average({})
        self.fixed: Arrays = {}
        self.calibrated: Arrays = {}
        self.confusions: dict[int, list[int]] = {}
        self.progress = Progress(config.num_rounds)
        self.is_scored = False
        self.current_round = 0
        self._counted = time.monotonic()
        self.notes: dict[str, str] = {}  # warnings of the secure sums, by key
        self._run_warnings: RunWarnings | None = None
        self._warned = set(LOGGED_AT_ONCE)

    def extra_metrics(self) -> dict[str, Any]:
        """Figures of the aggregation for the summary, by name."""
        return dict(self.model.figures)

    def extra_settings(self) -> dict[str, Any]:
        """Choices that are not configuration keys, by name: the encoder."""
        return {"model": model_spec(self.config, self.federation.facts).kind}

    def holders_of(self, client: int) -> Holders | None:
        """The holders of classes or entities in a client's group; None if they are not counted."""
        for group in self.state.holders:
            if client in group["clients"]:
                return Holders(group["needed"], tuple(group["counts"]))
        return None

    @property
    def whole_model(self) -> Arrays:
        """The shared and the fixed parameters, where all clients have the same."""
        return global_model(self.model) | self.fixed

    @property
    def last_round(self) -> int:
        """The number of the last round: that of the configuration, or an earlier one."""
        return min(self.state.last_round or self.config.num_rounds, self.config.num_rounds)

    def stop_after(self, number: int) -> None:
        """Make a round that has not begun the last one, at the earliest the next; without effect
        in the last round, and for a later round than the last."""
        if self.current_round < self.last_round:
            self.state.last_round = min(self.last_round, max(number, self.current_round + 1))
            self.progress.rounds = self.last_round

    def is_due(self, number: int, interval: int) -> bool:
        """Whether an action is due after this round: after the last, and every `interval` rounds; 0
        for only the last."""
        return number == self.last_round or bool(interval and number % interval == 0)

    def figures(self) -> dict[str, Any]:
        """The summary of the run so far; empty before the clients are connected."""
        if not self.federation.nodes:
            return {}
        figures = summary(
            self.config, self.state, self.federation, self.extra_metrics(), self.settings
        )
        warnings = self.warnings()
        figures["warnings"] = list(warnings.values())
        figures["warning_keys"] = list(warnings)
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
        self.note_data()
        chosen = flatten(self.config) | self.extra_settings()
        self.settings = {key: value for key, value in chosen.items() if value != before[key]}
        guard = self.config.guard
        if promise := guard.promise:
            log.info("%s: %s", guard.words or guard.table, promise)
        self.warn()

    def note_data(self) -> None:
        """Find the warnings of the clients' data; again when a checkpoint is loaded."""
        self._run_warnings = RunWarnings(self.config, self.federation)

    def warn(self) -> None:
        """Log the warnings that are new."""
        for key, text in self.warnings().items():
            if key not in self._warned:
                log.warning("%s", text)
                self._warned.add(key)

    def warnings(self) -> dict[str, str]:
        """The warnings of the run so far: sentences by key."""
        if self._run_warnings is None:
            return {}
        texts = self._run_warnings.so_far(self.state) | self.notes
        if self.is_scored:
            texts |= at_the_end(self.config, self.federation, self.state)
        return texts

    def header(self, phase: str, number: int = 0) -> Header:
        """The header of a phase's messages."""
        return Header(self.name, phase, number)

    def record(
        self,
        answer: Answer,
        row: Mapping[str, Any],
        weights: Mapping[int, float] | None = None,
        in_round: bool = True,
    ) -> None:
        """Record an answer in the state and in the run directory.

        Parameters
        ----------
        row : mapping of str to object
            Its row in `rounds.csv`.
        weights : mapping of partition to float, optional
            The weights of an aggregation.
        in_round : bool
            Whether it counts as a round's traffic, or as that of a one-shot run.
        """
        for partition, reply in answer.replies.items():
            if reply.metrics:
                self.state.latest[partition] = dict(reply.metrics)
            if reply.restored is not None:
                note_lost(self.state, partition, reply.restored)
        if answer.cohort:
            self.state.cohort = dict(answer.cohort)
        self.state.add(dropped=row["dropped"], seconds_training=row["seconds_training"])
        if in_round and answer.header.phase in WITHIN_ROUND:
            self.state.add(bytes_up=row["bytes_up"], bytes_down=row["bytes_down"])
        if answer.header.phase == TRAIN:
            self.state.add(rounds=1, seconds_aggregation=row["seconds_aggregation"])
        append(self.directory.path / "rounds.csv", [row])
        append(self.directory.path / "clients.csv", answer.client_rows(weights or {}))
        if self.sinks.names:
            self.sinks.add(row)

    def forget_calibration(self) -> None:
        """Drop the classifier of an earlier calibration, which belongs to another model, or at
        every `calibration-every` rounds train on with it."""
        every = self.config.calibration_every
        trains_on = bool(every and self.state.round % every == 0)
        head = self.calibrated if trains_on else {}
        if head and head.keys() <= self.fixed.keys():
            self.fixed = self.fixed | head
            self.state.fixed_holders = []
        elif head:
            self.model.load(self.model.state() | head)
        self.calibrated = {}
        self.state.scored = {"last": self.state.scored.get("last", [])}

    def forget_scores(self, partitions: Iterable[int]) -> None:
        """Drop the last scores of clients that are scored anew, or that failed."""
        for partition in partitions:
            self.state.latest.pop(partition, None)
            self.confusions.pop(partition, None)

    def note_best(self, number: int) -> None:
        """Compare the clients' last scores with those of the best round."""
        figures = personal_figures(
            self.state.latest, self.federation.descriptions, self.state.cohort
        )
        self.state.note_best({"round": number} | figures)

    def start_writing(self, stored_round: int) -> None:
        """Begin to write into the run directory, after the last stored round."""
        self.directory.start_writing(stored_round, is_complete=stored_round >= self.last_round)
        record = self.federation.record()
        if "note" in plugins.additions(plugins.MODEL_CODE):
            record |= plugins.addition(plugins.MODEL_CODE, "note")(self.config.model)
        self.directory.write_clients(record)
        self.sinks.start()

    def write_model(self) -> None:
        """Write `model.safetensors`."""
        metadata = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {str(partition): stamp for partition, stamp in self.state.stamps.items()},
            "last_round": self.state.round,
            "parameters": sorted(global_model(self.model) | self.fixed),
        }
        arrays = Checkpoint(self.model.state() | self.fixed, calibrated=self.calibrated)
        self.directory.write_model(arrays.named(), metadata)

    def clock(self) -> None:
        """Add the time since the last call to the run's seconds, which include those before a
        resume."""
        now = time.monotonic()
        self.state.add(seconds=now - self._counted)
        self._counted = now

"""The state, progress, records and summary of a run, which the loop and its callbacks share."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flwr.serverapp import Grid

from curvfed.server_app.added_warnings import AddedWarnings
from curvfed.server_app.answer import Answer
from curvfed.server_app.client_history import note_lost
from curvfed.server_app.directory import append, checkpoint
from curvfed.server_app.directory.checkpoint import Checkpoint, State
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import summary
from curvfed.server_app.federation import Federation, nodes_can_join
from curvfed.server_app.sinks import sinks_class
from curvfed.strategies.base.aggregation import Aggregation, Average
from curvfed.strategies.base.figures import PHASE_COSTS
from curvfed.strategies.base.further_state import whole_state
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import (
    AGREE,
    CALIBRATE,
    HOLDERS,
    KEYS,
    MEASURE,
    MESSAGE_TYPES,
    SUM,
    TRAIN,
    Facts,
    Header,
)
from curvfed.strategies.wire.precision import EXACT
from curvfed.tasks import plugins
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import KeyedError

WITHIN_ROUND = (TRAIN, SUM, KEYS, AGREE, MEASURE, HOLDERS, CALIBRATE)
"""Phases with messages that count as the traffic of a round, or of a one-shot run, whose sum counts
too. A calibration counts in a run without rounds, of which it is the whole work."""


ROUND_SILENCE = 1.0
PHASE_SILENCE = 5.0
"""Seconds without a line after which a round, or the replies of a slow phase, are logged."""


class RoundError(KeyedError, RuntimeError):
    """A round or protocol cannot finish; the checkpoint of the previous round stays."""

    area = "round"


class Progress:
    """Logs the progress of a run, with the number of the round and of all rounds if it has any.

    Parameters
    ----------
    rounds : int
        Number of all rounds.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._said = time.monotonic()
        self._result_said = self._said

    def say(self, number: int, text: str, silence: float = 0.0) -> None:
        """Log the result of a round, or a line before the first one without a number, unless the
        last result is less than `silence` seconds old."""
        now = time.monotonic()
        if now - self._result_said < silence:
            return
        self._result_said = now
        self._log(number, text)

    def _log(self, number: int, text: str) -> None:
        self._said = time.monotonic()
        if number and self.rounds:
            place = {"rounds": (number, self.rounds)}  # by which a notebook knows the line
            log.info("round %d/%d  %s", number, self.rounds, text, extra=place)
        else:
            log.info("%s", text)

    def count(self, header: Header, done: int, total: int) -> None:
        """Log the replies so far in a slow phase."""
        if time.monotonic() - self._said >= PHASE_SILENCE:
            self._log(header.round, f"{header.phase}: {done} of {total} answered so far")


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
        Clients and facts; empty before they are connected.
    model : Aggregation
        The server's half of the method; empty before the first model.
    fixed : dict of str to array
        The parameters that the server sets once for all clients.
    calibrated : dict of str to array
        The classifier of a calibration after the last round.
    confusions : dict of partition to list of int
        Confusion counts of the last scores: flat triples of true class, predicted class and number
        of test examples.
    method : Method
    num_rounds : int
        The number of rounds that it is configured for; 0 for a one-shot method.
    stored_round : int
        The round of the checkpoint that it goes on from; -1 for a new run.
    notes : dict of str to str
        Warnings of the secure sums and of a one-shot method, by key.
    model_notes : dict
        Further metadata of the stored model, in place of the names of its parameters.
    is_dry : bool
        Whether it ends before its rounds, without a model.
    has_scores : bool
        Whether its model can be scored.
    expects_no_score : bool
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
        self.method = config.row
        self.num_rounds = 0 if self.method.is_one_shot else config.num_rounds
        self.stored_round = -1
        self.progress = Progress(self.num_rounds)
        self.model_notes: dict[str, Any] = {}
        self.is_dry = False
        self.expects_no_score = False
        self.has_scores = True
        self.current_round = 0
        self._counted = time.monotonic()
        self.notes: dict[str, str] = {}
        self._identity: dict[str, Any] = {}
        # The system writes the files of a simulation within seconds, which take many short rounds.
        self._is_durable = nodes_can_join(grid)
        self._added_warnings: AddedWarnings | None = None
        self._warned: set[str] = set()

    @property
    def whole_model(self) -> Arrays:
        """The shared and the fixed parameters, where all clients have the same."""
        return self.model.global_model() | self.fixed

    @property
    def last_round(self) -> int:
        """The number of the last round: that of the configuration, or an earlier one."""
        return min(self.state.last_round or self.num_rounds, self.num_rounds)

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

    def note_data(self) -> None:
        """Find the warnings of the clients' data; again when a checkpoint is loaded."""
        self._added_warnings = AddedWarnings(self.config, self.federation)
        self._warned |= self._added_warnings.logged_at_once

    def warn(self) -> None:
        """Log the warnings that are new."""
        for key, text in self.warnings().items():
            if key not in self._warned:
                log.warning("%s", text)
                self._warned.add(key)

    def warnings(self) -> dict[str, str]:
        """The warnings of the run so far: sentences by key."""
        if self._added_warnings is None:
            return dict(self.notes)
        is_complete = self.expects_no_score and self.has_scores
        return self._added_warnings.texts(self.state, is_complete) | self.notes

    def place(self, header: Header) -> str:
        """Where messages belong, in words; a run without rounds has only phases."""
        return f"round {header.round}, {header.phase}" if self.num_rounds else header.phase

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
        phase = answer.header.phase
        if in_round and (phase in WITHIN_ROUND or phase not in MESSAGE_TYPES):
            self.state.add(bytes_up=row["bytes_up"], bytes_down=row["bytes_down"])
        if self.method.is_one_shot:
            self._note_phase(answer, row)
        if phase == TRAIN:
            self.state.add(rounds=1, seconds_aggregation=row["seconds_aggregation"])
        append(self.directory.path / "rounds.csv", [row])
        append(self.directory.path / "clients.csv", answer.client_rows(weights or {}))
        if self.sinks.names:
            self.sinks.add(row)

    def _note_phase(self, answer: Answer, row: Mapping[str, Any]) -> None:
        """Add the costs of a phase to the figures of a one-shot run, and log it."""
        phase = answer.header.phase
        figures = self.state.figures
        for cost in PHASE_COSTS:
            name = f"{cost}_{phase}"
            figures[name] = figures.get(name, 0) + row[cost]
        replies = f"{len(answer.replies)} of {amount(len(answer.seconds), 'client')}"
        self.progress.say(answer.header.round, f"{phase}: {replies}  {row['seconds']:.2f} s")

    def forget_scores(self, partitions: Iterable[int]) -> None:
        """Drop the last scores of clients that are scored anew, or that failed."""
        for partition in partitions:
            self.state.latest.pop(partition, None)
            self.confusions.pop(partition, None)

    def start_writing(self) -> None:
        """Begin to write into the run directory, after the last stored round."""
        is_complete = self.stored_round >= self.last_round
        self.directory.start_writing(self.stored_round, is_complete=is_complete)
        record = self.federation.record()
        if "note" in plugins.additions(plugins.MODEL_CODE):
            record |= plugins.addition(plugins.MODEL_CODE, "note")(self.config.model)
        self.directory.write_clients(record)
        self.sinks.start()
        self._identity = checkpoint.identity(self.federation)

    def store(self) -> None:
        """Store model and state, with which the run resumes; sinks receive only rows that are
        stored."""
        arrays = Checkpoint(whole_state(self.model), self.fixed, self.calibrated)
        checkpoint.save(
            self.directory.checkpoints, self.state, arrays, self._identity, self._is_durable
        )
        if self.sinks.names:
            self.sinks.flush()

    def write_model(self) -> None:
        """Write `model.safetensors`."""
        metadata = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {str(partition): stamp for partition, stamp in self.state.stamps.items()},
            "last_round": self.state.round,
        }
        parameters = sorted(self.model.global_model() | self.fixed)
        metadata |= self.model_notes or {"parameters": parameters}
        arrays = Checkpoint(self.model.state() | self.fixed, calibrated=self.calibrated)
        self.directory.write_model(arrays.named(), metadata)

    def figures(self) -> dict[str, Any]:
        """The summary of the run so far; empty before the clients are connected."""
        if not self.federation.nodes:
            return {}
        of_model = self.model.figures | self.state.figures
        figures = summary(self.config, self.state, self.federation, of_model, self.settings)
        warnings = self.warnings()
        figures["warnings"] = list(warnings.values())
        figures["warning_keys"] = list(warnings)
        return figures

    def clock(self) -> None:
        """Add the time since the last call to the run's seconds, which include those before a
        resume."""
        now = time.monotonic()
        self.state.add(seconds=now - self._counted)
        self._counted = now

"""The round loop: cohorts, aggregation, evaluation, progress, checkpoints."""

import logging
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from server_app import state as checkpoints
from server_app.calibrating import awaited, calibrated_head, checked
from server_app.figures import column, mean_std, personal_figures
from server_app.global_model import GlobalModel, fixed_parameters
from server_app.meeting import Federation, meet
from server_app.phase import Phase, run_phase
from server_app.replies import check_work, not_finite
from server_app.results import RunDirectory
from server_app.state import State
from server_app.summary import LAST, summary
from strategies.aggregation import Aggregation, Average, Update
from strategies.aggregations import aggregation
from strategies.calibration import CalibrationError
from strategies.cohort import sample
from strategies.config import RunConfig, flatten
from strategies.defaults import settled
from strategies.messages import EVALUATE, FINE_TUNE, TRAIN, Facts, Header, Reply
from strategies.methods import METHODS
from strategies.model_spec import model_spec
from strategies.split import Arrays

log = logging.getLogger("curvfed")

ROUND_SILENCE, PHASE_SILENCE = 1.0, 5.0
"""Seconds of silence after which a round, or the replies of a slow phase, are worth a line."""


class RoundError(RuntimeError):
    """A round that cannot be finished; the checkpoint of the one before is kept."""


class Rounds:
    """One run, from the meeting to the summary."""

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        self.config, self.grid, self.directory = config, grid, directory
        self.state = State()
        self.federation = Federation({}, {}, Facts("", 0, ()), {})
        self.model: Aggregation = Average({})
        self.fixed: Arrays = {}
        self.calibrated: Arrays = {}
        self.settings: dict[str, Any] = {}
        self._said = self._counted = time.monotonic()

    def run(self) -> None:
        """Meet, train, evaluate, store the model.

        Raises
        ------
        CohortError, RoundError, ConfigError
        """
        self.federation = meet(self.grid, self.config, self.directory.name)
        self._settle()
        self.model = aggregation(self.config, self.federation.facts)
        if self.config.resume:
            self._resume()
        self.fixed = self.fixed or fixed_parameters(self.config, self.federation)
        self.global_model = GlobalModel(self.config, self.federation)
        self.directory.write_clients(self.federation.record())
        for number in range(self.state.round + 1, self.config.num_rounds + 1):
            self._round(number)
        if self.config.num_rounds == 0:
            self._score_globally(0)
            self._finish(0, [])
        self._clock()
        about = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {str(partition): stamp for partition, stamp in self.state.stamps.items()},
            "last_round": self.state.round,
        }
        arrays = checkpoints.Checkpoint(self.model.state() | self.fixed, calibrated=self.calibrated)
        self.directory.write_model(arrays.named(), about)
        self.global_model.write(self._whole_model(), self.calibrated, self.directory.path)

    def _settle(self) -> None:
        """Make the choices that the configuration leaves open, and keep them for the summary."""
        facts, given = self.federation.facts, flatten(self.config)
        self.config = settled(self.config, facts.task)
        chosen = flatten(self.config) | {"model": model_spec(self.config, facts).kind}
        self.settings = {key: value for key, value in chosen.items() if value != given[key]}

    def _whole_model(self) -> Arrays:
        """The shared and the fixed parameters, where all clients have the same."""
        return self.model.sent_to(0) | self.fixed

    def _resume(self) -> None:
        found = checkpoints.load(self.directory.checkpoints, self.federation)
        if found is None:
            log.info("no checkpoint yet: starting anew")
            self.directory.truncate(-1)
        else:
            self.state, checkpoint, self.federation = found
            self.model = aggregation(self.config, self.federation.facts)
            self.model.load(checkpoint.model)
            self.fixed, self.calibrated = checkpoint.fixed, checkpoint.calibrated
            # Who has not come back has no say in the figures.
            self.state.latest = {p: told for p, told in self.state.latest.items() if p in self.federation.nodes}
            log.info("resuming after round %d", self.state.round)
            self.directory.truncate(self.state.round)

    def _round(self, number: int) -> None:
        started = time.monotonic()
        self.calibrated = {}  # one that was made after an earlier last round is of another model
        self.state.scored = {"last": self.state.scored.get("last", [])}
        clients = self.federation.nodes
        phase = self._phase(TRAIN, number, sample(list(clients), self.config.fraction_train, self.config.seed, number))
        self._check_enough(phase)
        aggregating = time.monotonic()
        self._aggregate(phase)
        row = phase.row(self.federation) | self.model.round_figures() | {
            "seconds_aggregation": time.monotonic() - aggregating,
            "global_accuracy": self._score_globally(number),
            "seconds": time.monotonic() - started,
        }  # fmt: skip
        self._record(phase, row)
        for partition, reply in phase.replies.items():
            self.state.stamps[partition] = number
            self.state.examples[partition] = reply.num_examples
        if len(phase.seconds) == len(clients):  # all were asked: who failed has no score this round
            for partition in phase.reasons:
                self.state.latest.pop(partition, None)
            self._note_best(number)
        self._finish(number, phase.replies)
        self.state.round = number
        self._clock()
        arrays = checkpoints.Checkpoint(self.model.state(), self.fixed, self.calibrated)
        checkpoints.save(self.directory.checkpoints, self.state, arrays, self.federation)
        dropped = f"  {row['dropped']} dropped" if row["dropped"] else ""
        word = "AUC" if self.federation.metric == "roc_auc" else "accuracy"
        self._say(
            number,
            f"{_global(row)}{word} {_percent(row['score'])}  loss {_short(row['loss'])}  {row['seconds']:.2f} s{dropped}",
            silence=0 if number == self.config.num_rounds else ROUND_SILENCE,
        )

    def _clock(self) -> None:
        """Add the time since the last call to that of the run, resumed ones included."""
        now = time.monotonic()
        self.state.add(seconds=now - self._counted)
        self._counted = now

    def _aggregate(self, phase: Phase) -> None:
        replies = {
            p: Update(reply.num_examples, dict(reply.arrays), int(reply.metrics.get("steps", 0)))
            for p, reply in phase.replies.items()
        }
        if not any(update.arrays for update in replies.values()):  # nothing is shared
            return
        if not any(update.examples for update in replies.values()):
            log.warning("round %d: no client that answered has training data", phase.header.round)
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            self.model.aggregate(replies)
        if reason := not_finite(self.model.state()):
            raise RoundError(f"round {phase.header.round}: {reason} after the aggregation")

    def _score_globally(self, number: int) -> float | None:
        """Accuracy of the model as it is now on the server's own test data, in the rounds that are due."""
        every, is_last = self.config.global_every, number == self.config.num_rounds
        if not self.global_model.is_scored or not (is_last or (every and number % every == 0)):
            return None
        score = self.global_model.score(self._whole_model())
        self.state.scored["last"] = [*self.state.scored.get("last", []), score][-LAST:]
        return score

    def _finish(self, number: int, trained: Iterable[int]) -> None:
        """What follows the training of some rounds, and of the last one: calibration, personal models, evaluation."""
        is_last = number == self.config.num_rounds
        if is_last:
            for name in METHODS[self.config.method].after:
                self._try_to_calibrate(name, number)
        every = self.config.fine_tune_every
        # Where nothing is shared, fine-tuning would be more of the same training.
        fine_tunes = self.config.fine_tunes and bool(self.model.sent_to(0))
        if fine_tunes and (is_last or (every and number % every == 0)):
            self._score(FINE_TUNE, number, list(self.federation.nodes))
            return
        every = self.config.evaluate_every
        if is_last or (every and number % every == 0):
            self._score(EVALUATE, number, [p for p in self.federation.nodes if p not in set(trained)])
            self._note_best(number)

    def _try_to_calibrate(self, name: str, number: int) -> None:
        """A calibration that fails must not cost the run its model: the reason is told, the classifier stays."""
        try:
            self._calibrate(name, number)
        except (CalibrationError, RoundError) as error:
            log.warning("the classifier is not calibrated: %s", error)
            self.state.scored["not_calibrated"] = str(error)

    def _calibrate(self, name: str, number: int) -> None:
        """A new classifier from sums over the clients, kept beside the old one."""
        started = time.monotonic()
        template = awaited(name, self._whole_model())
        phase = self._phase(name, number, list(self.federation.nodes), template)
        phase = checked(name, phase, self._whole_model(), self.config)
        self._check_enough(phase)
        self.calibrated = calibrated_head(name, phase, self._whole_model(), self.config)
        score = self.global_model.score(self._whole_model() | self.calibrated)
        self.state.scored["calibrated"] = score
        seconds = time.monotonic() - started
        self._record(phase, phase.row(self.federation) | {"global_accuracy": score, "seconds": seconds})
        self._say(number, f"{name}: global accuracy {_percent(score)}", silence=0)

    def _score(self, name: str, number: int, partitions: list[int]) -> None:
        """Score clients, as they are or after fine-tuning, on the parameters as they are now."""
        for partition in partitions:
            self.state.latest.pop(partition, None)
        if partitions:
            started = time.monotonic()
            phase = self._phase(name, number, partitions)
            self._record(phase, phase.row(self.federation) | {"seconds": time.monotonic() - started})

    def _phase(self, name: str, number: int, partitions: list[int], template: Arrays | None = None) -> Phase:
        told = set(self.state.told)
        phase = run_phase(
            self.grid,
            self.federation,
            Header(self.directory.name, name, number),
            {partition: self.state.stamps.get(partition, 0) for partition in partitions},
            {partition: self.model.sent_to(partition) for partition in partitions},
            self.config.round_timeout,
            {partition: self.fixed for partition in partitions if self.fixed and partition not in told},
            template,
            self._check_reply,
            lambda done, asked: self._say(number, f"{name}: {done} of {asked} clients", PHASE_SILENCE),
        )
        # Who failed may have lost what was fixed: it is sent again.
        self.state.told = sorted((told | phase.replies.keys()) - phase.reasons.keys()) if self.fixed else []
        return phase

    def _check_reply(self, reply: Reply) -> None:
        known = self.state.examples.get(reply.partition)
        if known is None and reply.header.phase == TRAIN:
            known = self.federation.descriptions[reply.partition].statistics.get("num_train")
        check_work(reply, known, self.config)

    def _check_enough(self, phase: Phase) -> None:
        needed = min(self.config.min_replies, len(phase.seconds))
        if len(phase.replies) < needed:
            reasons = [f"partition {partition}: {reason}" for partition, reason in phase.reasons.items()]
            raise RoundError(
                f"round {phase.header.round}: {len(phase.replies)} good replies of {len(phase.seconds)}, needed are "
                f"{needed} (min-replies). {'; '.join(reasons[:3])}"
            )

    def _record(self, phase: Phase, row: dict[str, Any]) -> None:
        """Note a phase in the state and in the run directory."""
        for partition, measured in phase.scores.items():
            if measured:
                self.state.latest[partition] = dict(measured)
        self.state.add(dropped=row["dropped"], seconds_training=row["seconds_training"])
        if phase.header.phase == TRAIN:
            self.state.add(rounds=1, **{name: row[name] for name in ("bytes_up", "bytes_down", "seconds_aggregation")})
        weights = self.model.weights() if phase.header.phase == TRAIN else {}
        self.directory.append(row, phase.client_rows(weights))

    def _note_best(self, number: int) -> None:
        validation = mean_std(column(self.state.latest, "val"))[0]
        best = self.state.best
        if validation is not None and (best is None or validation > best["metrics"]["validation"]):
            self.state.best = {"round": number} | personal_figures(self.state.latest, self.federation.descriptions)

    def figures(self) -> dict[str, Any]:
        """The summary of the run so far; empty before the clients have met."""
        if not self.federation.nodes:
            return {}
        return summary(self.config, self.state, self.federation, self.model.figures(), self.settings)

    def _say(self, number: int, text: str, silence: float) -> None:
        """A line of progress, if there was none for so many seconds."""
        now = time.monotonic()
        if now - self._said >= silence:
            self._said = now
            log.info("round %d/%d  %s", number, self.config.num_rounds, text)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}%"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _global(row: dict[str, Any]) -> str:
    return f"global {_percent(row['global_accuracy'])}  " if row["global_accuracy"] is not None else ""

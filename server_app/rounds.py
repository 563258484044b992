"""The round loop: selected clients, aggregation, evaluation, progress, checkpoints."""

import logging
import time
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from curvfed.server_app.alignment import alignment
from curvfed.server_app.directory import checkpoint as checkpoints
from curvfed.server_app.directory.summary import LAST
from curvfed.server_app.personal_figures import personal_figures
from curvfed.server_app.phase import Phase
from curvfed.server_app.progress import ROUND_SILENCE, Progress, in_words
from curvfed.server_app.round_phases import RoundPhases, updates_of
from curvfed.server_app.run import RoundError, check_enough
from curvfed.server_app.run_warnings import note_absences, note_answers, note_training
from curvfed.strategies.base.aggregation import Aggregation, Average, reweighted
from curvfed.strategies.base.average import AggregationError
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, find
from curvfed.strategies.base.named_arrays import not_finite
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.build_method import initial_aggregation, wire_precision
from curvfed.strategies.config.model_spec import fixed_parameters, model_spec
from curvfed.strategies.wire.exchange import sample
from curvfed.strategies.wire.messages import EVALUATE, FINE_TUNE, TRAIN
from curvfed.tasks.errors import SafeError

if TYPE_CHECKING:
    from curvfed.server_app.global_model import GlobalModel, GlobalPoints
    from curvfed.server_app.secure.secure_sum import SumsOfRun
    from curvfed.strategies.base.calibration import Calibration
    from curvfed.strategies.config.masked_vector import Total

log = logging.getLogger("curvfed")


class Rounds(RoundPhases):
    """A run of rounds."""

    calibrated: Arrays
    sums: "SumsOfRun"

    def run(self) -> None:
        """Connect the clients, train, evaluate, and store the model.

        Raises
        ------
        FederationError, RoundError, ConfigError
        """
        self.fixed = {}
        self.calibrated = {}
        self.progress = Progress(self.config.num_rounds)
        self.confusions = {}
        self.model = Average({})  # phases before the first model send no parameters
        self.connect()
        self.precision = wire_precision(self.config, self.federation.facts)
        self.model = self._aggregation()
        last = self._resume() if self.config.resume else -1
        if self.config.init_from and last < 0:
            self.model = self._warm_aggregation()
        self.fixed = self.fixed or fixed_parameters(self.config, self.federation.facts)
        self.global_model = self._global_model()
        sizes = [
            description.statistics.get("num_test")
            for description in self.federation.descriptions.values()
        ]
        self.is_scored = self.global_model is None and set(sizes) == {0}
        if self.config.secure_sum:
            from curvfed.server_app.secure.masked_phases import check_session
            from curvfed.server_app.secure.secure_sum import SumsOfRun

            self.sums = SumsOfRun(self.config, self.config.secure)
            check_session(self.header(TRAIN), self._cohort(1), self.sums)
            check_session(self.header(EVALUATE), list(self.federation.nodes), self.sums)
        self.directory.start_writing(last)
        self.directory.write_clients(self.federation.record())
        self.sinks.start()
        for number in range(self.state.round + 1, self.config.num_rounds + 1):
            self._round(number)
        if self.config.num_rounds == 0:
            self._score_globally(0)
            self._finish(0, [])
            self.write_confusions()
        self.is_scored = True
        self.warn()
        self.clock()
        metadata = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {str(partition): stamp for partition, stamp in self.state.stamps.items()},
            "last_round": self.state.round,
        }
        arrays = checkpoints.Checkpoint(self.model.state() | self.fixed, calibrated=self.calibrated)
        self.directory.write_model(arrays.named(), metadata)
        if self.global_model is not None:
            self.global_model.write(self._whole_model(), self.calibrated, self.directory.path)

    def _global_model(self) -> "GlobalModel | GlobalPoints | None":
        """The model that the server scores on its own test images or points."""
        if self.federation.facts.task not in ("images", "points"):
            return None
        from curvfed.server_app.global_model import open_global_model

        return open_global_model(self.config, self.federation, self.model.is_global)

    def extra_settings(self) -> dict[str, Any]:
        """The encoder."""
        return {"model": model_spec(self.config, self.federation.facts).kind}

    def extra_metrics(self) -> dict[str, Any]:
        """The aggregation's figures."""
        return self.model.figures()

    def _whole_model(self) -> Arrays:
        """The shared and the fixed parameters, where all clients have the same."""
        return self.model.global_model() | self.fixed

    def _aggregation(self) -> Aggregation:
        return initial_aggregation(self.config, self.federation.facts, len(self.federation.nodes))

    def _warm_aggregation(self) -> Aggregation:
        from curvfed.server_app.warm_start import warm_start

        config = self.config
        facts = self.federation.facts
        start = partial(warm_start, config.init_from, class_names=facts.class_names)
        return initial_aggregation(config, facts, len(self.federation.nodes), start)

    def _resume(self) -> int:
        """Load the checkpoint; returns its round, or -1 if there is none."""
        stored = checkpoints.load(self.directory.checkpoints, self.federation)
        if stored is None:
            log.info("no checkpoint yet: starting anew")
            return -1
        self.state, checkpoint, self.federation = stored
        self.model = self._aggregation()
        self.model.load(checkpoint.model)
        self.fixed = checkpoint.fixed
        self.calibrated = checkpoint.calibrated
        # Clients that did not reconnect no longer count in the figures.
        self.state.latest = {
            partition: scores
            for partition, scores in self.state.latest.items()
            if partition in self.federation.nodes
        }
        log.info("resuming after round %d", self.state.round)
        return self.state.round

    def _round(self, number: int) -> None:
        started = time.monotonic()
        self.calibrated = {}  # a classifier from an earlier last round belongs to another model
        self.state.scored = {"last": self.state.scored.get("last", [])}
        clients = self.federation.nodes
        cohort = self._cohort(number)
        phase, updates = self._train(number, cohort)
        aggregating = time.monotonic()
        self._aggregate(number, updates)
        row = (
            self.model.round_figures()
            | phase.row(self.federation)
            | {
                "seconds_aggregation": time.monotonic() - aggregating,
                GLOBAL_ACCURACY: self._score_globally(number),
                "seconds": time.monotonic() - started,
            }
            | alignment(updates)
        )
        self.record_phase(phase, row)
        for partition, reply in phase.replies.items():
            self.state.stamps[partition] = number
            if phase.cohort is None:
                self.state.examples[partition] = reply.num_examples
        note_training(self.state, phase, self.federation)
        note_absences(self.state, cohort, phase)
        self.warn()
        # Every client had a request, so a client that failed has no score in this round.
        if len(cohort) == len(clients):
            for partition in set(cohort) - phase.replies.keys():
                self.state.latest.pop(partition, None)
            self._note_best(number)
        self._finish(number, phase.replies)
        if number == self.config.num_rounds:
            note_answers(self.state, self.confusions, self.federation.metric)
            self.warn()
            # Before the checkpoint, for a resumed run does not repeat the checkpoint's round.
            self.write_confusions()
        self.state.round = number
        self.clock()
        arrays = checkpoints.Checkpoint(self.model.state(), self.fixed, self.calibrated)
        checkpoints.save(self.directory.checkpoints, self.state, arrays, self.federation)
        self.sinks.flush()
        is_last = number == self.config.num_rounds
        self.progress.say(
            number, in_words(row, self.federation.metric), 0 if is_last else ROUND_SILENCE
        )

    def _cohort(self, number: int) -> list[int]:
        return sample(
            list(self.federation.nodes), self.config.fraction_train, self.config.seed, number
        )

    def _train(self, number: int, cohort: list[int]) -> tuple[Phase, dict[int, Statistics]]:
        """Train one round: the update of each client, or in a secure sum one update for all."""
        updates: dict[int, Statistics] = {}
        if self.config.secure_sum:
            from curvfed.server_app.secure.masked_phases import masked_training

            phase, updates[0] = masked_training(
                self.ask, self.header(TRAIN, number), cohort, self.model, self.sums
            )
        else:
            phase = self.ask_round(TRAIN, number, cohort)
            updates = updates_of(phase)
            self.note_confusions(phase)
        check_enough(phase, self.config.min_replies)
        return phase, updates

    def _aggregate(self, number: int, updates: dict[int, Statistics]) -> None:
        if not any(update.arrays for update in updates.values()):  # nothing is shared
            return
        if not any(update.weight for update in updates.values()):
            log.warning("round %d: no client that answered has training data", number)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            try:
                self.model.aggregate(reweighted(updates, self.config.weights))
            except AggregationError as error:
                raise RoundError(f"round {number}: {error}", key="aggregation") from None
        if reason := not_finite(self.model.state()):
            raise RoundError(f"round {number}: {reason} after the aggregation", key="not-finite")

    def _score_globally(self, number: int) -> float | None:
        """Accuracy of the current model on the server's own test data, in the rounds that
        `global-every` selects."""
        interval = self.config.global_every
        is_last = number == self.config.num_rounds
        if self.global_model is None or not (is_last or (interval and number % interval == 0)):
            return None
        score = self.global_model.score(self._whole_model())
        self.state.scored["last"] = [*self.state.scored.get("last", []), score][-LAST:]
        return score

    def _finish(self, number: int, trained: Iterable[int]) -> None:
        """The steps after training: calibration after the last round, fine-tuning and evaluation
        after some rounds."""
        is_last = number == self.config.num_rounds
        if is_last:
            self._try_to_calibrate(number)
        interval = self.config.fine_tune_every
        # Where nothing is shared, fine-tuning would be more of the same training.
        fine_tunes = self.config.fine_tunes and bool(self.model.sent_to(0))
        if fine_tunes and (is_last or (interval and number % interval == 0)):
            self._score(FINE_TUNE, number, list(self.federation.nodes))
            self._note_best(number)
            return
        interval = self.config.evaluate_every
        if is_last or (interval and number % interval == 0):
            untrained = [
                partition for partition in self.federation.nodes if partition not in set(trained)
            ]
            if untrained and self.config.secure_sum:
                untrained = list(self.federation.nodes)  # a cohort has figures for all or for none
            self._score(EVALUATE, number, untrained)
            self._note_best(number)

    def _try_to_calibrate(self, number: int) -> None:
        """If the calibration fails, log the reason and keep the classifier: the run must not lose
        its model."""
        calibration = self.config.calibration
        if calibration is None:
            return
        try:
            self._calibrate(calibration, number)
        except (RoundError, SafeError) as error:
            log.warning("the classifier is not calibrated: %s", error)
            self.state.scored["not_calibrated"] = str(error)

    def _calibrate(self, calibration: "Calibration", number: int) -> None:
        """Make a new classifier from sums over the clients and keep it beside the old one."""
        from curvfed.server_app.calibrating import (
            SUMS,
            calibrated_head,
            drop_impossible,
            reply_template,
            total_in_the_open,
        )

        started = time.monotonic()
        model = self._whole_model()
        noise = 0.0
        name = calibration.phase
        template = reply_template(calibration, model)
        if self.config.secure_sum:
            phase, summed = self._masked(
                name, number, list(self.federation.nodes), template[SUMS].size, calibration.bound
            )
            total = summed.values
            examples = summed.weight
            noise = summed.error
        else:
            phase = self.ask_round(name, number, self.federation.nodes, template)
            phase = drop_impossible(calibration, phase, model)
            check_enough(phase, self.config.min_replies)
            total = total_in_the_open(phase)
            examples = sum(reply.num_examples for reply in phase.replies.values())
        self.calibrated = calibrated_head(calibration, name, total, examples, model, noise)
        score = None
        if self.global_model is not None:
            score = self.global_model.score(self._whole_model() | self.calibrated)
        self.state.scored["calibrated"] = score
        seconds = time.monotonic() - started
        self.record_phase(
            phase, phase.row(self.federation) | {GLOBAL_ACCURACY: score, "seconds": seconds}
        )
        self.progress.say(
            number,
            f"{name}: {find(GLOBAL_ACCURACY).words} {find(GLOBAL_ACCURACY).text(score) or '-'}",
        )

    def _score(self, name: str, number: int, partitions: list[int]) -> None:
        """Evaluate clients with the current parameters, before or after fine-tuning."""
        for partition in partitions:
            self.state.latest.pop(partition, None)
            self.confusions.pop(partition, None)
        if partitions:
            started = time.monotonic()
            if self.config.secure_sum:
                phase, _ = self._masked(name, number, partitions)
            else:
                phase = self.ask_round(name, number, partitions)
                self.note_confusions(phase)
            self.record_phase(
                phase, phase.row(self.federation) | {"seconds": time.monotonic() - started}
            )

    def _masked(
        self, name: str, number: int, partitions: list[int], size: int = 0, bound: float = 0.0
    ) -> tuple[Phase, "Total"]:
        """A phase after training; the server sees only the sum of the replies."""
        from curvfed.server_app.secure.masked_phases import masked_phase

        ask = partial(self.ask, in_round=False)
        header = self.header(name, number)
        return masked_phase(ask, header, partitions, self.sums, size, bound)

    def _note_best(self, number: int) -> None:
        figures = personal_figures(
            self.state.latest, self.federation.descriptions, self.state.cohort
        )
        self.state.note_best({"round": number} | figures)

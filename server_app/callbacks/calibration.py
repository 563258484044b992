"""The score of the global model on the server's own test data, and a new classifier from sums over
the clients' features."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from curvfed.server_app.answer import Answer, Question
from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.cohort import Cohort
from curvfed.server_app.directory.summary import LAST
from curvfed.server_app.run import RoundError, Run
from curvfed.strategies.base.calibration import Calibration, CalibrationError
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, find
from curvfed.strategies.base.statistics import (
    HEAD,
    Arrays,
    Statistics,
    add_prefix,
    select_prefix,
    total,
)
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError
from curvfed.tasks.errors import SafeError
from curvfed.tasks.kinds import KINDS

if TYPE_CHECKING:
    from curvfed.server_app.global_model import ScoredModel


SUMS = "sums"
"""Name of the array that a client sends."""


class GlobalScore(Callback):
    """Scores the model in the rounds that `global-every` selects.

    Without test data at the server it takes no part in rounds. `Run.is_scored` is true from the
    start if neither the server nor a client has test data, so that the run's warning does not wait
    for the end.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._model = _open(run)
        sizes = {
            description.statistics.get("num_test")
            for description in run.federation.descriptions.values()
        }
        run.is_scored = self._model is None and sizes == {0}

    @property
    def has_model(self) -> bool:
        """Whether the server has test data to score the model on."""
        return self._model is not None

    def figures(self, number: int, answer: Answer) -> Mapping[str, Any]:
        """The accuracy; None in the other rounds."""
        accuracy = self._score_round(number)
        return {GLOBAL_ACCURACY: accuracy, **self.run.state.scored.get("figures", {})}

    def after_round(self, completed: Round) -> None:
        """Score the starting model of a run without rounds."""
        if completed.answer is None:
            self._score_round(completed.number)

    def end(self) -> None:
        """Write the predictions of the last model."""
        if self._model is not None:
            run = self.run
            self._model.write(run.whole_model, run.calibrated, run.directory.path)

    def score(self, changed: Arrays) -> float | None:
        """The accuracy of the model with some parameters changed; None without test data."""
        if self._model is None:
            return None
        return self._model.score(self.run.whole_model | changed)

    def _score_round(self, number: int) -> float | None:
        if self._model is None or not self.run.is_due(number, self.run.config.global_every):
            return None
        accuracy = self._model.score(self.run.whole_model)
        scored = self.run.state.scored
        if figures := getattr(self._model, "figures", {}):
            scored["figures"] = figures
        if accuracy is None:
            return None
        scored["last"] = [*scored.get("last", []), accuracy][-LAST:]
        return accuracy


def _open(run: Run) -> "ScoredModel | None":
    """The model that the server scores on its own test data."""
    if not KINDS[run.federation.facts.task].reads_test_data:
        return None
    from curvfed.server_app.global_model import open_global_model

    return open_global_model(run.config, run.federation, run.model.is_global)


class CalibrationCallback(Callback):
    """Asks the clients for sums, computes the classifier, and stores it with the old one.

    If the calibration fails, the run keeps its classifier: it must not lose its model.

    Parameters
    ----------
    run : Run
    cohort : Cohort
    calibration : Calibration
    global_score : GlobalScore
    """

    def __init__(
        self, run: Run, cohort: Cohort, calibration: Calibration, global_score: GlobalScore
    ) -> None:
        super().__init__(run)
        self._cohort = cohort
        self._calibration = calibration
        self._global_score = global_score

    def after_round(self, completed: Round) -> None:
        """Calibrate after the last round, and every `calibration-every` rounds."""
        if not self.run.is_due(completed.number, self.run.config.calibration_every):
            return
        try:
            self._calibrate(completed.number)
        except (RoundError, SafeError) as error:
            log.warning("the classifier is not calibrated: %s", error)
            self.run.state.scored["not_calibrated"] = str(error)

    def _calibrate(self, number: int) -> None:
        run = self.run
        started = time.monotonic()
        calibration = self._calibration
        name = calibration.phase
        model = run.whole_model
        classes, features = model[f"{HEAD}weight"].shape

        def check(contribution: Statistics) -> None:
            try:
                calibration.check(contribution.arrays[SUMS], contribution.weight, features, classes)
            except CalibrationError as error:
                raise MessageError(str(error), key=error.key) from None

        question = Question(
            name,
            number,
            list(run.federation.nodes),
            sums={SUMS: np.zeros(calibration.length(features, classes))},
            bound=calibration.bound,
            check=check,
        )
        answer = self._cohort.ask(question)
        summed = total(list(answer.contributions.values()))
        if summed.weight == 0 and not calibration.is_private:
            raise CalibrationError(
                f"{name}: no client that answered has training data of a class that may leave it"
                " ([leaves] hull-min-class-size in its policy, secure.min-holders)",
                key="no-training-data",
            )
        head = select_prefix(model, HEAD)
        sums = summed.arrays[SUMS]
        if calibration.is_private:
            classifier = calibration.private_classifier(sums, head, summed.noise)
        else:
            classifier = calibration.classifier(sums, summed.weight, head, summed.error)
        run.calibrated = _checked(name, classifier)
        score = self._global_score.score(run.calibrated)
        run.state.scored["calibrated"] = score
        row = answer.row(run.federation)
        row |= {GLOBAL_ACCURACY: score, "seconds": time.monotonic() - started}
        run.record(answer, row, in_round=False)
        figure = find(GLOBAL_ACCURACY)
        run.progress.say(number, f"{name}: {figure.words} {figure.text(score) or '-'}")


def _checked(name: str, classifier: Arrays) -> Arrays:
    """The classifier by the names of the model's parameters, if it is finite."""
    if not all(np.isfinite(array).all() for array in classifier.values()):
        raise CalibrationError(
            f"{name}: the classifier computed from the sums is not finite", key="not-finite"
        )
    return add_prefix(HEAD, classifier)

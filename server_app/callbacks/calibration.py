"""A new classifier from sums over the clients' features."""

import time

import numpy as np

from curvfed.server_app.answer import Question
from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.callbacks.global_score import GlobalScore
from curvfed.server_app.cohort import Cohort
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
from curvfed.strategies.wire.messages import CALIBRATE
from curvfed.tasks.errors import SafeError

SUMS = "sums"
"""Name of the array that a client sends."""


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

    def before_round(self, number: int) -> None:
        """Drop the classifier of an earlier calibration, which belongs to another model, or at
        every `calibration-every` rounds train on with it."""
        run = self.run
        every = run.config.calibration_every
        trains_on = bool(every and run.state.round % every == 0)
        head = run.calibrated if trains_on else {}
        if head and head.keys() <= run.fixed.keys():
            run.fixed = run.fixed | head
            run.state.fixed_holders = []
        elif head:
            run.model.load(run.model.state() | head)
        run.calibrated = {}
        run.state.scored = {"last": run.state.scored.get("last", [])}

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
        model = run.whole_model
        classes, features = model[f"{HEAD}weight"].shape

        def check(contribution: Statistics) -> None:
            try:
                calibration.check(contribution.arrays[SUMS], contribution.weight, features, classes)
            except CalibrationError as error:
                raise MessageError(str(error), key=error.key) from None

        question = Question(
            CALIBRATE,
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
                "calibrate: no client that answered has training data of a class that may leave it"
                " ([leaves] hull-min-class-size in its policy, secure.min-holders)",
                key="no-training-data",
            )
        head = select_prefix(model, HEAD)
        sums = summed.arrays[SUMS]
        if calibration.is_private:
            classifier = calibration.private_classifier(sums, head, summed.noise)
        else:
            classifier = calibration.classifier(sums, summed.weight, head, summed.error)
        run.calibrated = _checked(classifier)
        score = self._global_score.score(run.calibrated)
        run.state.scored["calibrated"] = score
        row = answer.row(run.federation)
        row |= {GLOBAL_ACCURACY: score, "seconds": time.monotonic() - started}
        run.record(answer, row, in_round=not run.num_rounds)
        figure = find(GLOBAL_ACCURACY)
        run.progress.say(number, f"{CALIBRATE}: {figure.words} {figure.text(score) or '-'}")


def _checked(classifier: Arrays) -> Arrays:
    """The classifier by the names of the model's parameters, if it is finite."""
    if not all(np.isfinite(array).all() for array in classifier.values()):
        raise CalibrationError(
            "calibrate: the classifier computed from the sums is not finite", key="not-finite"
        )
    return add_prefix(HEAD, classifier)

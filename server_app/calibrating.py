"""A new classifier at the server from sums over the clients: SphereFed's calibration, and CCVR."""

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from server_app.phase import Phase
from strategies import calibration, virtual_features
from strategies.calibration import CalibrationError, Summation, Sums, check_trace, plain_sum, solve
from strategies.config import RunConfig
from strategies.messages import CALIBRATE, CCVR
from strategies.methods import HEAD
from strategies.split import Arrays
from strategies.virtual_features import ClassSums

log = logging.getLogger("curvfed")

Vector = NDArray[np.float64]

SUMS = "sums"
WEIGHT, BIAS = f"{HEAD}weight", f"{HEAD}bias"

LENGTHS: dict[str, Callable[[int, int], int]] = {CALIBRATE: calibration.length, CCVR: virtual_features.length}
"""By phase: how many numbers a client sends, of the features' dimension and the number of classes."""


def awaited(name: str, model: Arrays) -> Arrays:
    """What a reply of a calibration holds: names, shapes and dtypes."""
    classes, dim = model[WEIGHT].shape
    return {SUMS: np.zeros(LENGTHS[name](dim, classes))}


def checked(name: str, phase: Phase, model: Arrays, config: RunConfig) -> Phase:
    """The phase without the replies whose vectors cannot be sums over as many examples as they say.

    A secure sum, which shows none of them, leaves this to the check of the total.
    """
    reasons = {}
    for partition, reply in phase.replies.items():
        try:
            CHECKS[name](reply.arrays[SUMS], reply.num_examples, model, config)
        except CalibrationError as error:
            reasons[partition] = str(error)
            log.warning("%s: dropped the sums of partition %d: %s", name, partition, error)
    good = {partition: reply for partition, reply in phase.replies.items() if partition not in reasons}
    return replace(phase, replies=good, reasons=phase.reasons | reasons)


def calibrated_head(
    name: str, phase: Phase, model: Arrays, config: RunConfig, summation: Summation = plain_sum
) -> Arrays:
    """The new classifier from the clients' sums.

    Parameters
    ----------
    summation : callable
        What adds them up; a secure sum can take the place of the plain one, for nothing but the total is looked at here.

    Raises
    ------
    CalibrationError
        If what came cannot be sums over that many examples, or there are none.
    """
    total = summation({partition: reply.arrays[SUMS] for partition, reply in phase.replies.items()})
    examples = sum(reply.num_examples for reply in phase.replies.values())
    if examples == 0:
        raise CalibrationError(f"{name}: no client that answered has training data")
    found = MAKERS[name](total, examples, model, config)
    if not all(np.isfinite(array).all() for array in found.values()):
        raise CalibrationError(f"{name}: the classifier that comes of the sums is not finite")
    return found


def _check_closed_form(vector: Vector, examples: int, model: Arrays, config: RunConfig) -> Sums:
    classes, dim = model[WEIGHT].shape
    sums = Sums.unpack(vector, dim, classes)
    sums.check(examples)
    if config.spherefed.normalize:
        check_trace(sums.gram, examples)
    return sums


def _check_classes(vector: Vector, examples: int, model: Arrays, config: RunConfig) -> ClassSums:
    classes, dim = model[WEIGHT].shape
    sums = ClassSums.unpack(vector, dim, classes)
    if sums.counts.sum() != examples:
        raise CalibrationError("the counts of the classes do not add up to the number of examples")
    return sums


def _closed_form(total: Vector, examples: int, model: Arrays, config: RunConfig) -> Arrays:
    """SphereFed, Eq. 10."""
    sums = _check_closed_form(total, examples, model, config)
    found = solve(sums.gram, sums.targets, config.spherefed.ridge * examples)
    return {WEIGHT: found.astype(model[WEIGHT].dtype)}


def _retrained(total: Vector, examples: int, model: Arrays, config: RunConfig) -> Arrays:
    """CCVR, Algorithm 1."""
    sums = _check_classes(total, examples, model, config)
    features, labels = virtual_features.sample(sums, config.ccvr.per_class, config.seed)
    weight, bias = virtual_features.retrain(
        model[WEIGHT],
        model[BIAS],
        features,
        labels,
        config.ccvr.learning_rate,
        config.ccvr.epochs,
        config.batch_size,
        config.seed,
    )
    return {WEIGHT: weight, BIAS: bias}


CHECKS: dict[str, Callable[[Vector, int, Arrays, RunConfig], object]] = {
    CALIBRATE: _check_closed_form,
    CCVR: _check_classes,
}
MAKERS: dict[str, Callable[[Vector, int, Arrays, RunConfig], Arrays]] = {CALIBRATE: _closed_form, CCVR: _retrained}

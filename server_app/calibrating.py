"""A new classifier at the server from sums over the clients: SphereFed's calibration, and CCVR."""

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.phase import Phase
from curvfed.strategies.base import calibration
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.calibration import CalibrationError, Sums, check_trace, solve
from curvfed.strategies.base.method import HEAD
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.methods import ccvr
from curvfed.strategies.methods.ccvr import ClassSums
from curvfed.strategies.wire.messages import CALIBRATE, CCVR

Vector = NDArray[np.float64]

SUMS = "sums"
WEIGHT, BIAS = f"{HEAD}weight", f"{HEAD}bias"

LENGTHS: dict[str, Callable[[int, int], int]] = {CALIBRATE: calibration.length, CCVR: ccvr.length}
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
    return phase.without(reasons)


def calibrated_head(
    name: str, phase: Phase, total: Vector, model: Arrays, config: RunConfig, noise: float = 0.0
) -> Arrays:
    """The new classifier from the sum of the clients' sums.

    Parameters
    ----------
    phase : Phase
        Whose replies are in the sum; their numbers of examples are looked at alone.
    total : array
    noise : float
        Bound on the absolute error of its entries, that of a secure sum in fixed point.

    Raises
    ------
    CalibrationError
        If what came cannot be sums over that many examples, or there are none.
    """
    examples = sum(reply.num_examples for reply in phase.replies.values())
    if examples == 0:
        raise CalibrationError(f"{name}: no client that answered has training data")
    found = MAKERS[name](total, examples, model, config, noise)
    if not all(np.isfinite(array).all() for array in found.values()):
        raise CalibrationError(f"{name}: the classifier that comes of the sums is not finite")
    return found


def _check_closed_form(vector: Vector, examples: int, model: Arrays, config: RunConfig, noise: float = 0.0) -> Sums:
    classes, dim = model[WEIGHT].shape
    sums = Sums.unpack(vector, dim, classes, noise)
    sums.check(examples, noise)
    if config.spherefed.normalize:
        check_trace(sums.gram, examples)
    return sums


def _check_classes(vector: Vector, examples: int, model: Arrays, config: RunConfig) -> ClassSums:
    classes, dim = model[WEIGHT].shape
    sums = ClassSums.unpack(vector, dim, classes)
    if sums.counts.sum() != examples:
        raise CalibrationError("the counts of the classes do not add up to the number of examples")
    return sums


def _closed_form(total: Vector, examples: int, model: Arrays, config: RunConfig, noise: float) -> Arrays:
    """SphereFed, Eq. 10."""
    sums = _check_closed_form(total, examples, model, config, noise)
    found = solve(sums.gram, sums.targets, config.spherefed.ridge * examples, noise)
    return {WEIGHT: found.astype(model[WEIGHT].dtype)}


def _retrained(total: Vector, examples: int, model: Arrays, config: RunConfig, noise: float) -> Arrays:
    """CCVR, Algorithm 1; its sums come in the open alone."""
    sums = _check_classes(total, examples, model, config)
    keys = cast(ccvr.Keys, config.keys_of(config.row))
    features, labels = ccvr.sample(sums, keys.per_class, config.seed)
    weight, bias = ccvr.retrain(
        model[WEIGHT],
        model[BIAS],
        features,
        labels,
        keys.learning_rate,
        keys.epochs,
        config.batch_size,
        config.seed,
    )
    return {WEIGHT: weight, BIAS: bias}


CHECKS: dict[str, Callable[[Vector, int, Arrays, RunConfig], object]] = {
    CALIBRATE: _check_closed_form,
    CCVR: _check_classes,
}
MAKERS: dict[str, Callable[[Vector, int, Arrays, RunConfig, float], Arrays]] = {
    CALIBRATE: _closed_form,
    CCVR: _retrained,
}

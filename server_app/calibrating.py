"""The server's part of a calibration: it checks the clients' sums and the new classifier."""

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.phase import Phase
from curvfed.strategies.base.calibration import Calibration, CalibrationError, plain_sum
from curvfed.strategies.base.named_arrays import HEAD
from curvfed.strategies.base.statistics import Arrays

SUMS = "sums"


def reply_template(calibration: Calibration, model: Arrays) -> Arrays:
    """The array that a reply holds: its name, shape and dtype."""
    classes, dim = model[f"{HEAD}weight"].shape
    return {SUMS: calibration.sums.zeros(dim, classes).pack()}


def drop_impossible(calibration: Calibration, phase: Phase, model: Arrays) -> Phase:
    """The phase without the replies whose vectors cannot be sums over as many examples as they say.

    In a secure sum the server sees no single vector, and the total is checked instead.
    """
    classes, dim = model[f"{HEAD}weight"].shape
    reasons = {}
    for partition, reply in phase.replies.items():
        try:
            calibration.check(reply.arrays[SUMS], reply.num_examples, dim, classes)
        except CalibrationError as error:
            reasons[partition] = str(error)
    return phase.without(reasons)


def total_in_the_open(phase: Phase) -> NDArray[np.float64]:
    """The sum of the clients' vectors, which the server sees."""
    return plain_sum({partition: reply.arrays[SUMS] for partition, reply in phase.replies.items()})


def calibrated_head(
    calibration: Calibration,
    name: str,
    total: NDArray[np.float64],
    examples: int,
    model: Arrays,
    noise: float = 0.0,
) -> Arrays:
    """The new classifier from the sum of the clients' sums.

    Parameters
    ----------
    name : str
        The phase's name.
    total : array
    examples : int
        The number of examples in the total.
    noise : float
        Bound on the absolute error of its entries, that of a secure sum in fixed point.

    Raises
    ------
    CalibrationError
        If the total is impossible for this number of examples, or there are none.
    """
    if examples == 0:
        raise CalibrationError(
            f"{name}: no client that answered has training data", key="no-training-data"
        )
    head = {key.removeprefix(HEAD): array for key, array in model.items() if key.startswith(HEAD)}
    classifier = calibration.classifier(total, examples, head, noise)
    if not all(np.isfinite(array).all() for array in classifier.values()):
        raise CalibrationError(
            f"{name}: the classifier computed from the sums is not finite", key="not-finite"
        )
    return {f"{HEAD}{key}": array for key, array in classifier.items()}

"""What a run sums in secret: updates of the parameters, and sums over features; each as one phase of the round."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.phase import Phase
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.secure_sum import Ask, secure_sum
from curvfed.strategies.base.aggregation import Update
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Secure
from curvfed.strategies.config.secure_average import feature_sums, mean, parameter_sums
from curvfed.strategies.config.secure_phases import Opening
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.wire.messages import Header

log = logging.getLogger("curvfed")


def masked_training(
    ask: Ask, header: Header, cohort: Sequence[int], shared: Arrays, run: RunKeys, keys: Secure
) -> tuple[Phase, Update]:
    """A training phase of which the server sees only the sum of the replies.

    Returns
    -------
    phase : Phase
    update : Update
        As if from one client: the number of all examples, and the mean of the parameters.

    Raises
    ------
    RoundError
        If fewer clients than the threshold stay to the end.
    """
    length = sum(array.size for array in shared.values())
    try:
        phase, total = secure_sum(ask, header, cohort, SUM_PRIME, length, run, keys)
    except SecureSumError as error:
        raise RoundError(f"round {header.round}: {error}") from None
    examples = sum(reply.num_examples for reply in phase.replies.values())
    values = parameter_sums(keys.clip, len(cohort)).decode(total)
    return phase, Update(examples, mean(values, examples, shared))


def masked_sums(
    ask: Ask, header: Header, clients: Sequence[int], length: int, run: RunKeys, keys: Secure
) -> tuple[Phase, NDArray[np.float64], float]:
    """The sum of the clients' sums over features, and a bound on the error of its entries.

    Raises
    ------
    SecureSumError
        If fewer clients than the threshold stay to the end.
    """
    phase, total = secure_sum(ask, header, clients, SUM_PRIME, length, run, keys)
    encoding = feature_sums(len(clients))
    return phase, encoding.decode(total), encoding.error


def check_session(header: Header, clients: Sequence[int], run: RunKeys, keys: Secure) -> None:
    """Refuse clients over whom no sum is possible, before any of them is asked for anything.

    Raises
    ------
    ConfigError
        If there are fewer than two, or the threshold does not fit their number.
    """
    if len(clients) == 2:
        log.warning("2 clients: each of them can compute the other's vector from the sum")
    opening = Opening(target=header.phase, modulus=SUM_PRIME, length=1, clients=list(clients))
    try:
        opening.session(header, run, keys)
    except SecureSumError as error:
        raise ConfigError(
            f"secure sums of {len(clients)} clients (secure.threshold, fraction-train): {error}"
        ) from None

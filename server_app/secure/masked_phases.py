"""Phases of a round in which the server sees only the sum of the replies."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.phase import Phase
from curvfed.server_app.secure.secure_sum import Ask, secure_sum
from curvfed.strategies.base.aggregation import Update
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.config.secure_average import feature_sums, mean, parameter_sums
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.wire.messages import Header


def masked_training(
    ask: Ask, header: Header, cohort: Sequence[int], shared: Arrays, config: RunConfig
) -> tuple[Phase, Update]:
    """A training phase of which the server sees only the sum of the replies.

    Returns
    -------
    phase : Phase
    update : Update
        As if from one client: the number of all examples, and the mean of the parameters.

    Raises
    ------
    SecureSumError
        If fewer clients than the threshold stay to the end.
    """
    length = sum(array.size for array in shared.values())
    phase, total = secure_sum(ask, header, cohort, SUM_PRIME, length, config)
    examples = sum(reply.num_examples for reply in phase.replies.values())
    values = parameter_sums(config, len(cohort)).decode(total)
    return phase, Update(examples, mean(values, examples, shared))


def masked_sums(
    ask: Ask, header: Header, clients: Sequence[int], length: int, config: RunConfig
) -> tuple[Phase, NDArray[np.float64], float]:
    """The sum of the clients' sums over features, and a bound on the error of its entries.

    Raises
    ------
    SecureSumError
        As `masked_training`.
    """
    phase, total = secure_sum(ask, header, clients, SUM_PRIME, length, config)
    encoding = feature_sums(len(clients))
    return phase, encoding.decode(total), encoding.error

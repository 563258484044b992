"""What a well-formed reply says: is it possible that this client did this work, and what is its update?"""

import math

import numpy as np

from curvfed.strategies.base.average import Arrays, Update
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.checks import check_steps, check_variances
from curvfed.strategies.wire.messages import TRAIN, Reply


def check_work(reply: Reply, known: int | None, config: RunKeys) -> None:
    """Refuse a changed number of examples, an impossible number of steps, and impossible running statistics.

    Parameters
    ----------
    known : int or None
        The client's number of training examples, where the server knows it from before.
    config : RunKeys
        Settled.

    Raises
    ------
    MessageError
    """
    if config.secure_sum:
        from curvfed.strategies.config.secure_average import MOST_EXAMPLES

        if reply.num_examples > MOST_EXAMPLES:
            raise MessageError(f"num_examples is {reply.num_examples}; allowed in a secure sum are {MOST_EXAMPLES}")
    if reply.header.phase == TRAIN:
        if known is not None and reply.num_examples != known:
            raise MessageError(f"num_examples is {reply.num_examples}; it was {known} before")
        check_steps(reply.metrics.get("steps"), reply.num_examples, config.local_epochs, config.batch_size)
        check_variances(reply.arrays)
    elif known is not None and reply.num_examples > known:
        raise MessageError(f"num_examples is {reply.num_examples}; {known} were trained on")


def update_of(reply: Reply) -> Update:
    """What a client contributes to the aggregation."""
    metrics = reply.metrics
    steps, loss = int(metrics.get("steps", 0)), metrics.get("loss", math.nan)
    return Update(reply.num_examples, dict(reply.arrays), steps, loss)


def not_finite(arrays: Arrays) -> str:
    """Which arrays are not finite, in words; "" if all are. Sums of finite replies can exceed float32."""
    broken = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    return f"{', '.join(broken[:3])} {'is' if len(broken) == 1 else 'are'} not finite" if broken else ""

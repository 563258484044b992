"""From replies to updates, and checks of a well-formed reply: is it possible that this client did this work?"""

import math

import numpy as np

from curvfed.server_app.phase import Phase
from curvfed.strategies.base.average import Arrays, Update
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.checks import check_steps, check_variances
from curvfed.strategies.wire.messages import TRAIN, Reply


def updates_of(phase: Phase) -> dict[int, Update]:
    """What each client contributes to the aggregation.

    With a `wire-precision` below float32 each reply is moved by what rounding took from the model on its way to the client:
    it is as far from the server's model as the client's result is from what the client received.
    """
    sent = {id(request.arrays): request.arrays for request in phase.sent.values()}
    lost = {key: phase.precision.lost(arrays) for key, arrays in sent.items()}
    return {
        p: Update(
            reply.num_examples,
            {name: array + rests[name] if name in rests else array for name, array in reply.arrays.items()},
            int(reply.metrics.get("steps", 0)),
            reply.metrics.get("loss", math.nan),
        )
        for p, reply in phase.replies.items()
        for rests in [lost[id(phase.sent[p].arrays)]]
    }


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


def not_finite(arrays: Arrays) -> str:
    """Which arrays are not finite, in words; "" if all are. Sums of finite replies can exceed float32."""
    broken = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    return f"{', '.join(broken[:3])} {'is' if len(broken) == 1 else 'are'} not finite" if broken else ""

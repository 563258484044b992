"""The parameters that a run starts from: those that its seed yields, or others that the node's
policy names."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from curvfed.client_app.node.policy_tables import ANY
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.basis import start_digest
from curvfed.strategies.config.build_method import initial_aggregation
from curvfed.strategies.wire.messages import TRAIN, Facts, Request
from curvfed.tasks.errors import SafeError

if TYPE_CHECKING:
    from curvfed.client_app.client import Client

CLOSE = 1e-2
"""Allowed distance from the seeded parameters, as a share of the array's largest entry: processors
and versions of torch draw slightly different numbers, and the wire may round them."""


def check_start(client: "Client", request: Request, received: Arrays) -> None:
    """Refuse a run that starts from other parameters than its seed yields, unless the policy allows
    these. Parameters that have been trained cannot be checked.

    Parameters
    ----------
    client : Client
    request : Request
    received : dict of str to array
        Its parameters in full precision.

    Raises
    ------
    ConfigError
        Names the digest of the start, and the line of the policy that would allow it.
    """
    header = request.header
    # A run without rounds never trains, whatever round its messages name.
    is_start = 0 in (header.round, client.config.num_rounds) or (
        header.round == 1 and header.phase == TRAIN
    )
    rules = client.node.rules
    if not is_start or rules is None or rules.runs.starts == ANY:
        return
    if _is_seeded(client, request.required_facts, received):
        return
    digest = start_digest(received)
    if digest not in rules.runs.starts:
        raise ConfigError(
            "this run does not start from the parameters that its configuration and its seed yield"
            f" here, but from others (init-from), which could be made to reveal single records:"
            f' [runs] starts = ["{digest}"] in this node\'s policy.toml would allow them',
            key="other-start",
        )


def _is_seeded(client: "Client", facts: Facts, received: Arrays) -> bool:
    # Other methods send every client the same at first; those that couple clients need two.
    partitions = facts.partitions or (client.partition, client.partition + 1)
    try:
        aggregation = initial_aggregation(client.config, facts, partitions)
    except SafeError:  # the server's half of another package's method is not installed here
        return False
    seeded = aggregation.sent_to(client.partition)
    return seeded.keys() == received.keys() and all(
        _is_close(received[name], array, may_be_scaled=name not in client.tensors)
        for name, array in seeded.items()
    )


def _is_close(received: NDArray[Any], seeded: NDArray[Any], may_be_scaled: bool) -> bool:
    """Whether an array is the seeded one, or a multiple: what a method sends beside the model, such
    as a coupling of models, can depend on the number of clients."""
    if received.shape != seeded.shape:
        return False
    actual = received.astype(np.float64).ravel()
    expected = seeded.astype(np.float64).ravel()
    if may_be_scaled and (square := expected @ expected):
        expected = expected * (actual @ expected / square)
    allowed = CLOSE * np.abs(expected).max(initial=0)
    return bool((np.abs(actual - expected) <= allowed).all())

"""Limits on the parameters that a real node computes with: crafted ones can reveal single
records."""

import numpy as np

from curvfed.client_app.client import Client
from curvfed.client_app.node.policy import ANY
from curvfed.client_app.personal import TRAINED
from curvfed.geometry.arrays import Array
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.build_method import initial_aggregation
from curvfed.strategies.config.masked import start_digest
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import TRAIN, Facts, Request
from curvfed.tasks.errors import SafeError

CLOSE = 1e-2
"""Allowed distance from the seeded parameters, as a share of the array's largest entry: processors
and versions of torch draw slightly different numbers, and the wire may round them."""

SUMMED = "summed"
"""Name of a real node's note about a run: that its sum of a one-shot run has left."""

MODELS_PER_SUM = 10
"""Number of models of a one-shot method that a node always scores of one state of its data, in all
runs: a resumed run, or one with another classifier, may learn others from the same sum. Its policy
may allow more."""


def check_start(client: Client, request: Request, received: Arrays) -> None:
    """Refuse parameters that cannot come from training here. Until the node has trained in a run,
    it accepts only those that the run's seed yields or the policy allows. Trained parameters cannot
    be checked.

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
    is_start = 0 in (header.round, client.config.num_rounds)
    if header.round == 1:
        is_start = is_start or header.phase == TRAIN or not client.files.notes.read(TRAINED)
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


def check_model(client: Client, received: Arrays) -> None:
    """Refuse to score a model of a one-shot run from which this node's sum has not left, or too
    many models: each score says something about the points where the model was made to look.

    Raises
    ------
    ConfigError
    """
    rules = client.node.rules
    if rules is None or rules.runs.starts == ANY:
        return
    if not client.files.notes.read(SUMMED):
        raise ConfigError(
            "this node scores the model of a one-shot run once its sum has left, and it has not:"
            ' [runs] starts = "any" in its policy.toml would allow any model',
            key="other-start",
        )
    if client.ledger is not None:
        kind = f"models of {client.config.method}"
        limit = max(MODELS_PER_SUM, rules.runs.configurations)
        client.ledger.admit_limited(kind, client.data_state, start_digest(received), limit)


def _is_seeded(client: Client, facts: Facts, received: Arrays) -> bool:
    # Other methods send every client the same at first; those that couple clients need two.
    partitions = facts.partitions or (client.partition, client.partition + 1)
    try:
        aggregation = initial_aggregation(client.config, facts, partitions)
    except SafeError:  # the server's half of another package's method is not installed here
        return False
    seeded = aggregation.sent_to(client.partition)
    if seeded.keys() != received.keys():
        return False
    for name, array in seeded.items():
        if not _is_close(received[name], array, may_be_scaled=name not in client.tensors):
            return False
    return True


def _is_close(received: Array, seeded: Array, may_be_scaled: bool) -> bool:
    """Whether an array is the seeded one, or a multiple: arrays that a method sends with the model,
    such as a coupling of models, can depend on the number of clients."""
    if received.shape != seeded.shape:
        return False
    actual = received.astype(np.float64).ravel()
    expected = seeded.astype(np.float64).ravel()
    if may_be_scaled and (square := expected @ expected):
        expected = expected * (actual @ expected / square)
    allowed = CLOSE * np.abs(expected).max(initial=0)
    return bool((np.abs(actual - expected) <= allowed).all())

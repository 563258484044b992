"""The limit on configurations per question. A question is a masked sum of a node's own data from
one start, or a one-shot sum of one state of its data; the node's policy has the limit. Open answers
from a start count as one more configuration."""

import json
from hashlib import sha256

from curvfed.client_app.client import Client
from curvfed.client_app.node.ledger_memory import IN_SUMS, OPEN
from curvfed.client_app.node.ledger_runs import SEED
from curvfed.strategies.base.run_keys import OF_THE_SERVER
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.masked import TARGETS, is_masked, start_digest
from curvfed.strategies.config.run_config import flatten
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import EVALUATE, MEASURE, TRAIN, Request

HARMLESS = OF_THE_SERVER | {
    # The run's name, data folder, and end. Earlier effects of the number of rounds are in
    # `fixed_by_num_rounds`.
    "run-name",
    "data-dir",
    "global-every",
    "num-rounds",
    "early-stopping",
    "evaluate-every",
    "min-replies",
    # Where and how fast the clients compute.
    "device",
    "threads",
    # Parts of public data, and the split, which is the node's own.
    "dataset",
    "partition",
    "alpha",
    "shards",
    "min-client-size",
    "train-size",
    "test-size",
}
"""Keys of a run that do not shape a client's vectors. The method's own `resumable` keys, which only
its server reads, are such keys too. Every other key makes another configuration."""


VECTORS = 2
"""Revision of the vectors that configurations give. A run under an earlier one counts as another
configuration."""

MEASUREMENTS = 3
"""Number of configurations of a one-shot method that a node always answers in `measure`; its policy
may allow more. Whether it refuses bounds the size of a class."""


def admit(client: Client, request: Request) -> None:
    """Refuse a question that is asked under more configurations than the policy allows, before
    anything of its answer is computed.

    A client's open figures and its open update are what its part of a sum hides, so open phases of
    the same kinds count.

    Raises
    ------
    SecureSumError
        Names the limit and the line of the policy.
    """
    phase = request.header.phase
    # The open scores of a one-shot method belong to the configuration of its sum.
    is_sum = is_masked(client.config, phase) or (client.method.is_one_shot and phase == EVALUATE)
    is_open = not client.config.is_masked
    if client.ledger is None or client.node.rules is None or not client.split_digest:
        return
    limit = client.node.rules.runs.configurations
    if phase == MEASURE and not client.config["hull.dry-run"]:
        kind = f"measurements of {client.config.method}"
        client.ledger.admit_limited(
            kind, client.split_digest.hex(), _configuration(client), max(MEASUREMENTS, limit)
        )
    if not is_sum and phase not in TARGETS:
        return
    questions = {}
    is_start = client.config.num_rounds == 0 or (request.header.round <= 1 and phase == TRAIN)
    if client.method.is_one_shot:
        state = client.split_digest.hex()
        method = client.config.method
        questions[f"{method} {state}"] = f"{method} of its present data"
    elif is_start or not client.ledger.has_asked(client.run):
        # Seeds count too: starts of one seed may differ in the last bit.
        seed = f"{SEED}{client.config.seed}"
        start = start_digest(decode_arrays(request.arrays))
        questions = {seed: f"the start of {seed}", start: f"the start {start}"}
    if is_open and is_compared(client):
        admit_data(client)
    client.ledger.admit(
        client.run, questions, _configuration(client), limit, is_open=is_open, is_sum=is_sum
    )


def admit_data(client: Client, is_fixed: bool = False) -> None:
    """Refuse to send values in the open after a sum of the same data: the sum minus the open values
    of the other members would be this member's, whatever the seeds.

    A node that has answered in the open before hides nobody in a sum; it states no examples.

    Parameters
    ----------
    client : Client
    is_fixed : bool
        Whether the values depend on the data alone: then also in a sum after open values.

    Raises
    ------
    SecureSumError
    """
    if client.ledger is None or client.node.rules is None or not client.split_digest:
        return
    exposure = IN_SUMS if client.is_masked else OPEN
    limit = client.node.rules.runs.configurations
    client.ledger.admit_data(client.split_digest.hex(), exposure, limit, is_fixed)


def is_compared(client: Client) -> bool:
    """Whether open updates and scores may show the part of the client in the run's sums: not in the
    sum of a one-shot method, nor if noise hides them."""
    return not (client.method.is_one_shot or client.is_private)


def hides_others(client: Client) -> bool:
    """Whether the client's examples hide those of other members: not if updates or scores of its
    present data have left in the open. Once its vector has left, `admit_data` lets none."""
    if client.ledger is None or not client.split_digest or not is_compared(client):
        return True
    return not client.ledger.is_open(client.split_digest.hex())


def _configuration(client: Client) -> str:
    """The digest of everything that shapes a client's vectors, except the start, which has the
    seed."""
    harmless = HARMLESS | client.config.resumable_keys
    values = {key: value for key, value in flatten(client.config).items() if key not in harmless}
    minima = _minima(client)
    # The only effects of a data set's name on data of a node's own.
    names = ("mean", "std", "augments")
    pixels = [getattr(client.data, name, None) for name in names]
    if client.method.is_one_shot:
        return _digest([values, pixels, *minima])
    del values["seed"]
    fixed = client.config.fixed_by_num_rounds
    return _digest([values, pixels, fixed, client.split_digest.hex(), *minima])


def _minima(client: Client) -> list[int | None]:
    """The minima of the policy that decide which classes or entities are summed; empty without any,
    as for the defaults."""
    rules = client.node.rules
    minima = []
    names_sums = sums_by_name(client.config)
    has_classes = client.method.is_one_shot or client.config.calibrator is not None
    if rules and (has_classes or names_sums):
        minima.append(rules.leaves.hull_min_class_size)
    if rules and names_sums:
        minima.append(rules.sums.min_holders)
    return minima if any(minima) else []


def _digest(values: object) -> str:
    return sha256(json.dumps([VECTORS, values], sort_keys=True).encode()).hexdigest()

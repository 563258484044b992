"""What the server does with the replies of a round, what a message costs beside copying its numbers,
and what a node's ledger of many sums costs each message."""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import clarabel
import numpy as np
from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.client_app.node import ledger_file
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.ledger_memory import BEGUN, SUM
from curvfed.geometry.min_norm import min_norm_point
from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.deviations import gram
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.methods.hyperfed import Consistent, Keys
from curvfed.strategies.wire.codec import decode_arrays, decode_reply, encode_arrays, encode_reply
from curvfed.strategies.wire.messages import TRAIN, Header, Reply

# the last is the default of hyperfed.radius
CLIENTS = 20
RESNET18 = 11_000_000
RADIUS = 0.2
GROUP = range(9)
LEDGER_MILLISECONDS = 5.0
EXACT_SUMS = "sums in float64 in the order of the clients: exact, and the same bits everywhere"
TWO_PASSES = "the weights come of the products, so the models are read again, and summed in float64"

AGGREGATE: dict[str, Callable[[Arrays, Replies], Any]] = {
    "average": lambda start, replies: Average(start).aggregate(replies),
    "consistent": lambda start, replies: Consistent(start, Keys(radius=RADIUS)).aggregate(replies),
    "gram": lambda start, replies: gram(start, [reply.arrays for reply in replies.values()]),
}
"""A round's aggregation by fedavg and by HyperFed, and the inner products of the deviations from
the start."""


def rows(place: Place) -> list[Row]:
    """Twenty clients' models of the size of ResNet18."""
    of = f"{CLIENTS} models of 11M float32"
    product = "one matrix product of as many numbers"
    point = "weights of the point of least norm, 20 deviations, radius .2"

    def against(theirs: Callable[[Any], Any], ours: str) -> Pair:
        start, replies, matrix = models(CLIENTS, place.size(RESNET18, 1_000))
        return partial(AGGREGATE[ours], start, replies), partial(theirs, matrix)

    to_product = partial(against, lambda matrix: matrix @ matrix.T)
    to_reading = partial(against, lambda matrix: [row.max() for row in matrix])
    average = partial(to_reading, "average")
    consistent = partial(to_product, "consistent")
    return [
        Row(f"Gram matrix of the deviations of {of}", product, partial(to_product, "gram")),
        Row(f"consistent aggregation of {of}", product, consistent, buys=TWO_PASSES),
        Row(f"average of {of}", "read the bytes once", average, buys=EXACT_SUMS),
        Row(point, "Clarabel", _against_clarabel, None, 15, 10),
    ]


def models(num: int, length: int) -> tuple[Arrays, Replies, NDArray[np.float32]]:
    """A start, replies whose models are pieces of the rows of one matrix, and the matrix."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((num, length), dtype=np.float32)
    replies = {client: Statistics(_pieces(row), 100 + client) for client, row in enumerate(matrix)}
    return _pieces(rng.standard_normal(length, dtype=np.float32)), replies, matrix


def _pieces(row: NDArray[np.float32], num: int = 50) -> Arrays:
    return {f"{number}.weight": piece for number, piece in enumerate(np.array_split(row, num))}


def _against_clarabel() -> Pair:
    """Our exact solver against an interior-point solver on the same quadratic programme."""
    rng = np.random.default_rng(0)
    num = CLIENTS
    deviations = rng.standard_normal((num, 3 * num)) + rng.standard_normal(3 * num)
    products = deviations @ deviations.T
    identity = sparse.identity(num, format="csc")
    rows = sparse.vstack(
        [sparse.csc_matrix(np.ones((1, num))), -identity, identity, -identity], format="csc"
    )
    bounds = np.concatenate(
        [[1.0], np.zeros(num), np.full(num, (1 + RADIUS) / num), np.full(num, (RADIUS - 1) / num)]
    )
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(3 * num)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    problem = sparse.triu(products, format="csc"), np.zeros(num), rows, bounds, cones, settings
    return (
        partial(min_norm_point, products, radius=RADIUS),
        lambda: clarabel.DefaultSolver(*problem).solve(),
    )


def wire(place: Place) -> list[Row]:
    """Of 1 million and of 11 million float32."""
    million = place.size(1_000_000, 1_000)
    resnet18 = place.size(RESNET18, 1_000)
    arrays = "arrays of {} float32 into a message and out of it"
    copies = "copy them twice"
    reply = "a reply of 11M float32, encoded, through Flower's bytes for gRPC and decoded"
    return [
        Row(arrays.format("1M"), copies, partial(_against_copies, million), 1.5, 9),
        Row(arrays.format("11M"), copies, partial(_against_copies, resnet18), 1.5, 9),
        Row(reply, "Flower's part of it alone", partial(_against_flower, resnet18), 1.5, 9),
    ]


def message(parameters: int) -> Call:
    """A model into a record, and out of it."""
    start, *_ = models(0, parameters)
    return lambda: decode_arrays(encode_arrays(start))


def _against_copies(num: int) -> Pair:
    array = np.random.default_rng(0).standard_normal(num, dtype=np.float32)
    return lambda: decode_arrays(encode_arrays({"weight": array})), lambda: (
        array.copy(),
        array.copy(),
    )


def _against_flower(num: int) -> Pair:
    """The way of a whole reply between processes, against making and reading its bytes alone."""
    header = Header("benchmark", TRAIN, 1)
    array = np.random.default_rng(0).standard_normal(num, dtype=np.float32)
    reply = Reply(header, 0, num_examples=1, arrays={"weight": array})
    record = encode_reply(reply)
    return lambda: decode_reply(
        _through_flower(encode_reply(reply)), header
    ), lambda: _through_flower(record)


def _through_flower(record: RecordDict) -> RecordDict:
    return recorddict_from_proto(Proto.FromString(recorddict_to_proto(record).SerializeToString()))


def ledgers(place: Place) -> list[Row]:
    """A ledger of 10,000 sums over nine nodes, in a process that has read it, and in a new one."""
    number = place.size(10_000, 100)
    of = "of a ledger of 10,000 sums"

    def against(prepare: Callable[[Ledger], None], other: float) -> Pair:
        ledger = _ledger(number)

        def check() -> None:
            prepare(ledger)
            ledger.check(GROUP, tuple(GROUP))

        check()
        return check, other

    limit = f"{LEDGER_MILLISECONDS:g} ms"
    return [
        Row(f"check {of}", limit, lambda: against(_loaded, LEDGER_MILLISECONDS / 1000), 1.0, 5, 20),
        Row(f"first check {of}", limit, lambda: against(_new, LEDGER_MILLISECONDS / 1000), None, 5),
        Row(
            f"first check {of}, without its index",
            limit,
            lambda: against(_new_without_index, LEDGER_MILLISECONDS / 1000),
        ),
    ]


def _ledger(number: int) -> Ledger:
    folder = Path(tempfile.mkdtemp(prefix="curvfed-ledger-"))
    ledger = Ledger(folder / "ledger.jsonl", [folder / "anchor"])
    heads = {str(peer): [10_000_000, "0" * 32] for peer in GROUP}
    basis = dict.fromkeys(("parameters", "facts", "configuration", "code"), "0" * 16)
    names = {"run": "a-run-of-many-rounds", "phase": "train"}
    with mock.patch.object(os, "fsync"), mock.patch.object(ledger_file, "write_atomically"):
        for round in range(number):
            ledger.append(BEGUN, **names, round=round)
            ledger.append(
                SUM,
                **names,
                round=round,
                session=f"{round:064x}",
                cohort=list(GROUP),
                basis=basis,
                heads=heads,
            )
    ledger_file._checked.clear()
    ledger.append("run", run="another")  # writes index and anchor, which the others did not
    return ledger


def _loaded(ledger: Ledger) -> None:
    """The process has read the ledger."""


def _new(ledger: Ledger) -> None:
    ledger_file._checked.clear()


def _new_without_index(ledger: Ledger) -> None:
    ledger.path.with_suffix(".index").unlink(missing_ok=True)
    ledger_file._checked.clear()

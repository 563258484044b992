"""Messages: what encoding and decoding costs beside copying the numbers."""

import numpy as np
from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as Proto

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.strategies.wire.arrays import decode_arrays, encode_arrays
from curvfed.strategies.wire.messages import TRAIN, Header, Reply, decode_reply, encode_reply

REPEATS = 9
RESNET18 = 11_000_000
"""About as many parameters as ResNet18 has."""


def rows(place: Place) -> list[Row]:
    """Of 1 million and of 11 million float32."""
    several = [
        Row(
            f"arrays of {num // 1_000_000}M float32 into a message and out of it",
            "copy them twice",
            "limit",
            lambda num=num: codec_against_copies(num),  # type: ignore[misc]
            1.5,
        )
        for num in (1_000_000, RESNET18)
    ]
    return [
        *several,
        Row(
            "a reply of 11M float32, encoded, through Flower's bytes for gRPC and decoded",
            "Flower's part of it alone",
            "limit",
            lambda: reply_against_flower(RESNET18),
            1.5,
        ),
    ]


def codec_against_copies(num: int = 1_000_000) -> Ratio:
    """The way of arrays through a record, against copying them once for each direction."""
    arrays = {"weight": np.random.default_rng(0).standard_normal(num, dtype=np.float32)}
    return compare(lambda: decode_arrays(encode_arrays(arrays)), lambda: _twice(arrays), REPEATS)


def reply_against_flower(num: int) -> Ratio:
    """The way of a whole reply as it goes between processes, against making and reading its bytes alone."""
    arrays = {"weight": np.random.default_rng(0).standard_normal(num, dtype=np.float32)}
    header = Header("benchmark", TRAIN, 1)
    reply = Reply(header, 0, num_examples=1, arrays=arrays)
    record = encode_reply(reply)
    return compare(
        lambda: decode_reply(_through_flower(encode_reply(reply)), header),
        lambda: _through_flower(record),
        REPEATS,
    )


def _through_flower(record: RecordDict) -> RecordDict:
    return recorddict_from_proto(Proto.FromString(recorddict_to_proto(record).SerializeToString()))


def _twice(arrays: dict[str, np.ndarray]) -> None:
    for _ in range(2):
        for array in arrays.values():
            array.copy()

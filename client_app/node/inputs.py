"""What a client's vector in a secure sum was computed from, so that a sum over nearly the same is
recognised."""

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from numpy.typing import NDArray

from curvfed.strategies.base.average import Arrays

BUCKETS = 256
"""Length of a sketch. The distance of two sketches is that of the parameters, give or take 9% (two
standard deviations)."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of one vector.

    Attributes
    ----------
    of : str
        Names and shapes of the parameters received, as a hash; "data" of sums over the data alone:
        a run's seed chooses what is trained on, and of two such choices most points are the same.
    sketch, update : bytes
        Random projections, float32, of the parameters and of the client's own update; empty where
        there are none.
    moved : float
        The length of the client's own update; where it made none, that of the parameters.
    vector : str
        SHA-256 of the client's vector.
    phase : str
    """

    of: str
    sketch: bytes
    update: bytes
    moved: float
    vector: str
    phase: str

    @classmethod
    def of_parameters(
        cls,
        received: Arrays,
        update: NDArray[np.float64],
        vector: NDArray[np.float64],
        phase: str,
        secret: str,
    ) -> "Inputs":
        """Of a vector that was computed from parameters; `secret` is the node's own, and seeds the
        projections."""
        shapes = sha256(
            repr([(name, received[name].shape) for name in sorted(received)]).encode()
        ).hexdigest()
        own = sketch({"": update}, secret).tobytes() if update.size else b""
        lengths = [
            np.linalg.norm(array) for array in ([update] if update.size else received.values())
        ]
        moved = float(np.linalg.norm(lengths))
        return cls(shapes, sketch(received, secret).tobytes(), own, moved, _digest(vector), phase)

    @classmethod
    def of_data(cls, vector: NDArray[Any], phase: str) -> "Inputs":
        """Of a vector that says something about the data alone."""
        return cls("data", b"", b"", 0.0, _digest(vector), phase)

    def as_record(self) -> ConfigRecord:
        """For Flower's state of the node, between the masked vector and the signature."""
        return ConfigRecord({**asdict(self)})

    @classmethod
    def from_record(cls, record: Any) -> "Inputs":
        """Inverse of `as_record`."""
        return cls(**dict(record))

    def as_fields(self) -> dict[str, Any]:
        """The fields of a line in the ledger."""
        texts = {
            name: base64.b64encode(getattr(self, name)).decode() for name in ("sketch", "update")
        }
        return texts | {"of": self.of, "moved": self.moved, "vector": self.vector}

    def are_those_of(self, line: Mapping[str, Any], nearness: float) -> bool:
        """Whether a line's sum had the same inputs, or nearly.

        So it is where the parameters lie closer than `nearness` times the client's own update, and
        where its own updates lie so close to each other: at a small learning rate an update moves
        the parameters and stays as it was.
        """
        if (line["phase"], line["of"]) != (self.phase, self.of):
            return False
        if not self.sketch:
            return True
        reach = nearness * max(self.moved, line["moved"])
        return any(
            len(own) == len(text := base64.b64decode(line[name]))
            and np.linalg.norm(np.frombuffer(own, np.float32) - np.frombuffer(text, np.float32))
            <= reach
            for name, own in (("sketch", self.sketch), ("update", self.update))
            if own
        )


NONE = Inputs("", b"", b"", 0.0, "", "")
"""Of a simulated client, which keeps no ledger."""


def sketch(arrays: Arrays, seed: str) -> NDArray[np.float32]:
    """A random projection (`BUCKETS`,) that keeps distances: every entry goes with a random sign
    into a random bucket."""
    generator = np.random.default_rng(int(sha256(seed.encode()).hexdigest(), 16))
    total = np.zeros(BUCKETS)
    for name in sorted(arrays):
        flat = np.ravel(arrays[name]).astype(np.float64)
        drawn = generator.integers(0, 2 * BUCKETS, flat.size)
        total += np.bincount(drawn // 2, np.where(drawn % 2, flat, -flat), BUCKETS)
    return total.astype(np.float32)


def _digest(vector: NDArray[Any]) -> str:
    return sha256(np.ascontiguousarray(vector).tobytes()).hexdigest()

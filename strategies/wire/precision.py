"""Parameters in messages at half the bytes: float32 is rounded to bfloat16 or float16, and widened again on arrival.

Both sides compute in float32, and the server keeps its model so. What rounding took from the model on its way to the
clients (`Precision.lost`) is added to their replies, whose distances from the model are then those from what was received.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.wire.arrays import MessageError

Arrays = Mapping[str, NDArray[Any]]

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""The upper half of a float32, which NumPy has no type for. The field's name travels in the array's header."""

_TYPES = {"bfloat16": BFLOAT16, "float16": np.dtype(np.float16)}
_LIMITS = {"bfloat16": 2.0**128 - 2.0**119, "float16": 65520.0}
"""Halfway from the largest number to infinity: this and larger ones would become infinite."""


@dataclass(frozen=True)
class Precision:
    """What is rounded in the messages of a run, and how.

    Values are rounded to the nearest, ties to even. The error is at most a share of the value, 2⁻⁸ for bfloat16 and 2⁻¹¹
    for float16. Smaller values than the least normal one (2⁻¹²⁶ and 2⁻¹⁴) have an absolute error, of at most 2⁻¹³⁴ and
    2⁻²⁵. Values that would become infinite, from 65520 in float16, are refused.

    Attributes
    ----------
    name : str
        "float32" rounds nothing; "bfloat16" or "float16".
    parameters : frozenset of str
        Names of the model's trained parameters, which are float32. Arrays of these names are rounded, also behind a prefix
        that ends with a slash, such as "variate/head.weight"; all others are sent as they are.
    """

    name: str = "float32"
    parameters: frozenset[str] = frozenset()

    def rounds(self, name: str) -> bool:
        """Whether an array of this name is rounded, if it is float32."""
        return self.name != "float32" and name.rpartition("/")[2] in self.parameters

    def narrow(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """The arrays as they are sent.

        Raises
        ------
        MessageError
            If a finite value would become infinite. NaN and infinite values stay what they are.
        """
        return {name: self._narrow(name, array) for name, array in arrays.items()}

    def _narrow(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        if not self.rounds(name) or array.dtype != np.float32:
            return array
        flat, limit = array.reshape(-1), _LIMITS[self.name]
        if (largest := np.abs(flat[np.isfinite(flat)]).max(initial=0)) >= limit:
            raise MessageError(
                f'{name} has values of up to {largest:g}, wire-precision = "{self.name}" takes them below {limit:g}'
            )
        if self.name == "float16":
            return array.astype(np.float16)
        bits = flat.view(np.uint32)
        rounded = bits + (0x7FFF + (bits >> 16 & 1))
        # The carry of a NaN could make it a number.
        halves = np.where(np.isnan(flat), bits | 0x400000, rounded) >> 16
        return halves.astype(np.uint16).view(BFLOAT16).reshape(array.shape)

    def widen(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """The arrays that were received: what was rounded is float32 again.

        Raises
        ------
        MessageError
            If an array that must be rounded is not.
        """
        return {name: self._widen(name, array) if self.rounds(name) else array for name, array in arrays.items()}

    def _widen(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        if array.dtype != _TYPES[self.name]:
            raise MessageError(f'{name} is {array.dtype}, expected {self.name}, for wire-precision = "{self.name}"')
        if self.name == "float16":
            return array.astype(np.float32)
        return (array["bfloat16"].reshape(-1).astype(np.uint32) << 16).view(np.float32).reshape(array.shape)

    def lost(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """What rounding takes from the model's parameters in these arrays: sent minus received, exact in float32."""
        found = {name: array for name, array in arrays.items() if name in self.parameters and self.rounds(name)}
        return {name: found[name] - received for name, received in self.widen(self.narrow(found)).items()}

    def size(self, arrays: Arrays) -> int:
        """Bytes of the arrays in a message, without the encoding's overhead."""
        return sum(array.nbytes // (1 + self.rounds(name)) for name, array in arrays.items())


EXACT = Precision()
"""Nothing is rounded."""

"""The precision of a run's messages, which may halve the bytes of its parameters.

float32 is rounded to bfloat16 or float16 when it is encoded, and widened again when it is decoded.
Both sides compute in float32, and the server keeps its model in float32. It adds the rounding error
of the sent model (`Precision.lost`) to the replies, so that their distances from the model are
those from the received model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.wire.checks import MessageError

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""The upper half of a float32, a type that NumPy lacks. The field's name travels in the array's
header."""

_FORMATS = {"bfloat16": (BFLOAT16, 2.0**128 - 2.0**119), "float16": (np.dtype(np.float16), 65520.0)}
"""The type on the wire, and the smallest number that would become infinite: halfway from the
largest finite number to its successor."""


@dataclass(frozen=True)
class Precision:
    """The rounding in the messages of a run.

    Values are rounded to the nearest, ties to even. The error is at most a share of the value, 2⁻⁸
    for bfloat16 and 2⁻¹¹ for float16. Values below the smallest normal number (2⁻¹²⁶ and 2⁻¹⁴) have
    an absolute error of at most 2⁻¹³⁴ and 2⁻²⁵. Values that would become infinite, from 65520 in
    float16, are refused.

    Attributes
    ----------
    name : str
        "float32" rounds nothing; "bfloat16" or "float16".
    parameters : frozenset of str
        Names of the model's trained parameters, which are float32. Arrays with these names are
        rounded, also behind a prefix that ends with a slash, such as "variate/head.weight"; other
        arrays are not.
    """

    name: str = "float32"
    parameters: frozenset[str] = frozenset()

    def rounds(self, name: str) -> bool:
        """Whether an array of this name is rounded, if it is float32."""
        return self.name != "float32" and name.rpartition("/")[2] in self.parameters

    def narrow(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """An array as it is sent.

        Raises
        ------
        MessageError
            If a finite value would become infinite. NaN and infinite values are unchanged.
        """
        if not self.rounds(name) or array.dtype != np.float32:
            return array
        flat = array.reshape(-1)
        wire, limit = _FORMATS[self.name]
        if (largest := np.abs(flat[np.isfinite(flat)]).max(initial=0)) >= limit:
            raise MessageError(
                f"{name} has values of up to {largest:g}; allowed with wire-precision ="
                f' "{self.name}" are values below {limit:g}',
                key="too-large",
            )
        if wire != BFLOAT16:
            return array.astype(wire)
        bits = flat.view(np.uint32)
        # The carry of a NaN could make it a number.
        rounded = np.where(np.isnan(flat), bits | 0x400000, bits + (0x7FFF + (bits >> 16 & 1)))
        return (rounded >> 16).astype(np.uint16).view(wire).reshape(array.shape)

    def widen(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """A received array, as float32 again if it is rounded.

        Raises
        ------
        MessageError
            If an array that must be rounded is not.
        """
        if not self.rounds(name):
            return array
        if array.dtype != _FORMATS[self.name][0]:
            raise MessageError(
                f"{name} is {array.dtype}, expected {self.name}, for wire-precision ="
                f' "{self.name}"',
                key="shape",
            )
        if array.dtype != BFLOAT16:
            return array.astype(np.float32)
        return (
            (array["bfloat16"].reshape(-1).astype(np.uint32) << 16)
            .view(np.float32)
            .reshape(array.shape)
        )

    def lost(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The rounding errors of the model's parameters in these arrays: sent minus received, exact
        in float32."""
        lost = {}
        for name, array in arrays.items():
            if name in self.parameters and self.rounds(name):
                lost[name] = array - self.widen(name, self.narrow(name, array))
        return lost

    def size(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        """Bytes of the arrays in a message, without the encoding's overhead."""
        if not self.parameters:
            return sum(array.nbytes for array in arrays.values())
        return sum(array.nbytes // (1 + self.rounds(name)) for name, array in arrays.items())


EXACT = Precision()
"""Nothing is rounded."""

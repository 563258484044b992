"""The types of NumPy's arrays in annotations, and the order of an array in memory."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Booleans = NDArray[np.bool_]


def memory_order(array: Array) -> Literal["C", "F"]:
    """The order in which a flat view of an array shares its memory: "F" for a matrix stored by
    columns, such as a weight that multiplies sparse features, else "C".

    Examples
    --------
    >>> memory_order(np.zeros((2, 3)).T)
    'F'
    >>> memory_order(np.zeros((2, 3)))
    'C'
    """
    is_by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    return "F" if is_by_column else "C"

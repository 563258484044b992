"""Label codes: numbers for hulls, whose sum in a bin determines which hulls have a vertex there.

Every hull has its own slot, so that a label occurs at most once per bin. A code spreads the slots
over words, separate sums with `width` slots each: slot s has number s mod width in word s // width.
"""

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.errors import undecodable

Sums = NDArray[np.uint64]
Members = NDArray[np.bool_]

MAX_BITS = 62
"""Largest size of a sum of labels, and of a bin. The prime above both is below 2⁶³: two residues
add up in a uint64."""


class BinaryCode:
    """The label of slot i of a word is 2^i: a bin may be in any number of hulls.

    Parameters
    ----------
    num_labels : int
        The number of slots, ≥ 1.
    bits : int
        The largest number of slots in a word. The labels are spread evenly over as few words as
        possible.

    Attributes
    ----------
    width : int
        The number of slots in a word.
    num_words : int
    largest : int
        No sum of labels of one word is larger.
    """

    def __init__(self, num_labels: int, bits: int) -> None:
        self.num_words = -(-num_labels // bits)
        self.width = -(-num_labels // self.num_words)
        self.largest = 2**self.width - 1

    def label(self, slot: int) -> int:
        """The label that a slot, 0 to `width`·`num_words` − 1, adds to its word: 2^(slot mod
        width)."""
        return 1 << slot % self.width

    def members(self, sums: Sums) -> Members:
        """The slots of a word that each sum consists of.

        Parameters
        ----------
        sums : uint64 array (n,)

        Returns
        -------
        bool array (n, width)

        Raises
        ------
        HullError
            If a number is not a sum of labels.
        """
        if sums.size and int(sums.max()) > self.largest:
            raise undecodable("the number in a bin is not a sum of labels")
        return (sums[:, None] >> np.arange(self.width, dtype=np.uint64) & np.uint64(1)).astype(bool)

"""Label codes: numbers for hulls whose sum in a bin tells which hulls have a vertex there.

Every hull has a slot of its own, so a label occurs at most once per bin. A code puts the slots into words, sums of their
own, of `width` slots each: slot s is number s mod width of word s // width.
"""

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.errors import undecodable

Sums = NDArray[np.uint64]
Members = NDArray[np.bool_]

MAX_BITS = 62
"""Of a sum of labels, as of a bin: the prime above both is below 2⁶³, so that two residues add up in a uint64."""


class BinaryCode:
    """Slot i of a word is 2^i: any number of hulls may meet in a bin.

    Parameters
    ----------
    num_labels : int
        Slots, ≥ 1.
    bits : int
        Slots of a word at most. The labels are spread over as few words as that takes, evenly.

    Attributes
    ----------
    width : int
        Slots of a word.
    num_words : int
        Words.
    largest : int
        No sum of labels of one word is larger.
    """

    def __init__(self, num_labels: int, bits: int) -> None:
        self.num_words = -(-num_labels // bits)
        self.width = -(-num_labels // self.num_words)
        self.largest = 2**self.width - 1

    def label(self, slot: int) -> int:
        """What a slot, 0 to `width`·`num_words` − 1, adds to its word: 2^(slot mod width)."""
        return 1 << slot % self.width

    def members(self, sums: Sums) -> Members:
        """Which slots of a word sums consist of.

        Parameters
        ----------
        sums : uint64 array (n,)

        Returns
        -------
        bool array (n, width)

        Raises
        ------
        HullError
            If one is no sum of labels.
        """
        if sums.size and int(sums.max()) > self.largest:
            raise undecodable("the sum in a bin is none of labels")
        return (sums[:, None] >> np.arange(self.width, dtype=np.uint64) & np.uint64(1)).astype(bool)

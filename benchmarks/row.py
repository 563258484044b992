"""A row of the table: what is measured, against what, and how near it is to be."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.timing import Ratio

Against = Literal["limit", "twin", "peer", "budget"]


@dataclass(frozen=True)
class Place:
    """Where rows find data.

    Attributes
    ----------
    data : Path or None
        Folder of the public data sets; None leaves the built-in ones, and rows that need others out.
    device : str
        cpu, cuda or cuda:N, of the parts that can be on another than the CPU, steps and networks.
    """

    data: Path | None
    device: str = "cpu"

    @property
    def processor(self) -> str:
        """The kind of the device, cpu or cuda."""
        return self.device.partition(":")[0]

    @property
    def graph(self) -> str:
        """The data set of graphs."""
        return "cora" if self.data else "trees"

    @property
    def folder(self) -> Path:
        """`data`, or one that nothing is read from."""
        return self.data or Path()


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes
    ----------
    what, against : str
        Ours, and what it is held against.
    kind : str
        What the other is: the limit (the same arithmetic in a plain loop or one library call), the Euclidean twin, a
        peer (another library's way to the same), or a budget of seconds.
    measure : callable
    goal : float or None
        The ratio that is not to be exceeded.
    """

    what: str
    against: str
    kind: Against
    measure: Callable[[], Ratio]
    goal: float | None = None

    def is_met(self, found: Ratio) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else found.ratio <= self.goal


Rows = Callable[[Place], list[Row]]
"""The rows of one part, none of them measured yet."""

"""A figure: a measurement of a run, with its words, unit, digits and range."""

from dataclasses import dataclass
from typing import Any, Literal

CLIENT = "client"
ROUND = "round"
RUN = "run"
METRIC = "metric"
DETAIL = "detail"
"""Levels: columns of `clients.csv` and of `rounds.csv`, keys of `summary.json`, names among its
`metrics`, and those of them that only the report of a run lists."""

LARGEST = 1e30
"""Largest absolute value of any figure in a message; sums and squares of a few such values are
finite."""

LARGEST_COUNT = 2.0**53 - 1
"""Largest count that a float holds exactly."""

SCALES = {"%": 100.0, "kB": 1e-3}
"""Printed value over stored value, by the printed unit."""


Better = Literal["more", "less", ""]
"""Which values of a figure are better; "" for neither."""


@dataclass(frozen=True)
class Figure:
    """A row of the registry.

    Attributes
    ----------
    name : str
        In messages and files.
    words : str
        In tables and pages.
    levels : tuple of str
        Where it stands: `CLIENT`, `ROUND`, `RUN`, `METRIC`, `DETAIL`.
    unit : str
        Of the printed value: "%" of a fraction, "kB" of bytes, "s"; "" for a pure number; "text".
    digits : int
        Decimals of the printed value.
    low, high : float
        The range of the stored value, ends included.
    is_count : bool
        Whether it is a whole number.
    better : {"more", "less", ""}
    is_sent : bool
        Whether a client's reply may have it.
    is_open : bool
        Whether it is left out of a secure sum.
    examples : str
        The figure with the number of test examples that it is a score of; "" for other figures.
    hides_zero : bool
        Whether tables of a run leave out 0, as for a count of faults.
    left_out_of : str
        The score that it counts left out clients of, without which tables leave it out; "" for
        other figures.
    short : str
        In tables and logs with little space, for a metric; "" for its name.
    accuracy : str
        The words for accuracy in a run with this metric, if they are others.

    Examples
    --------
    >>> accuracy = share("accuracy", "test accuracy")
    >>> accuracy.label, accuracy.text(0.8125)
    ('test accuracy (%)', '81.2%')
    """

    name: str
    words: str
    levels: tuple[str, ...] = (METRIC,)
    unit: str = ""
    digits: int = 3
    low: float = -LARGEST
    high: float = LARGEST
    is_count: bool = False
    better: Better = ""
    is_sent: bool = False
    is_open: bool = False
    examples: str = ""
    hides_zero: bool = False
    left_out_of: str = ""
    short: str = ""
    accuracy: str = ""

    @property
    def label(self) -> str:
        """Words and unit, for an axis or the head of a table."""
        if self.unit:
            return f"{self.words} ({self.unit})"
        return self.words

    @property
    def scale(self) -> float:
        """Printed value over stored value."""
        return SCALES.get(self.unit, 1.0)

    def number(self, printed: float) -> str:
        """Write a value that is in the printed unit already, with a true minus sign."""
        return f"{printed:.{self.digits}f}".replace("-", "−")

    def text(self, value: Any) -> str:
        """Write a stored value with its unit; a text as it is, a bool as "yes" or "no", None as
        ""."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return "" if value is None else str(value)
        if self.is_count or (isinstance(value, int) and not self.unit):
            return f"{value:,.0f}"
        number = f"{self.scale * value:,.{self.digits}f}".replace("-", "−")
        if self.unit == "%":
            return f"{number}{self.unit}"
        return f"{number} {self.unit}".rstrip()


def share(name: str, words: str, *levels: str, better: Better = "more", **options: Any) -> Figure:
    """A fraction from 0 to 1, printed in percent."""
    options |= {"unit": "%", "digits": 1, "low": 0.0, "high": 1.0, "better": better}
    return Figure(name, words, levels or (METRIC,), **options)


def count(name: str, words: str, *levels: str, **options: Any) -> Figure:
    """A whole number, 0 or more; means have a decimal."""
    options |= {"digits": 1, "low": 0.0, "high": LARGEST_COUNT, "is_count": True}
    return Figure(name, words, levels or (METRIC,), **options)


def faults(name: str, words: str, *levels: str, **options: Any) -> Figure:
    """A count of faults; tables of a run leave out 0."""
    return count(name, words, *levels, hides_zero=True, **options)


def cost(name: str, words: str, unit: str, *levels: str, **options: Any) -> Figure:
    """Seconds or bytes; less is better."""
    options |= {"unit": unit, "digits": 1, "low": 0.0, "better": "less"}
    return Figure(name, words, levels or (METRIC,), **options)

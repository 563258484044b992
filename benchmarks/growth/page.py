"""The page on what growth costs: a line for every curve, and where one is steeper than expected."""

from collections.abc import Mapping
from typing import Any

from benchmarks.growth.curves import CURVES, GROWS, Curve
from benchmarks.growth.fit import STEEPER, exponent, steep
from benchmarks.growth.measure import Measured

HEAD = """\
# What growth costs

How time and memory of the app's parts grow. This page and its figures are made by `python -m benchmarks.growth`, the words
from `benchmarks/growth/curves.py`.

Each point is the median of up to 25 repeats on one thread, after one call to warm up; what takes 2 s is repeated once. What
is timed, and what was set up before, is in `benchmarks/growth/work.py`. Memory is the most that one more call had beyond
what the process had before it; it is told from 2 MB on. An exponent p, of size^p, is fitted by least squares to the
logarithms of the upper half of the sizes, three at least. Sizes that would take a curve more time, or memory, than there
is, by the sizes before, are left out; which these are is said below.
"""

EMPTY = "Nothing is measured yet.\n"
TABLE = "| | time | exponent | expected | memory | exponent | why |\n| --- | --- | --- | --- | --- | --- | --- |"
MANY = """\
## A thousand clients

`python -m benchmarks.many_clients` runs 1,000 clients in one process, a tenth of them in each round, against 10 that all
train: seconds for each client that trained, and the memory of the process after every round.
"""


def page(found: Mapping[str, Measured], machine: Mapping[str, Any], folder: str) -> str:
    """The whole text.

    Parameters
    ----------
    found : mapping of str to Measured
        By the curves' names; those that are absent have a line without figures.
    machine : mapping
        What they were measured on.
    folder : str
        Where the figures are, from the page.
    """
    parts = [HEAD, _machine(machine) if found else EMPTY]
    for grows, title in GROWS.items():
        curves = [curve for curve in CURVES if curve.grows == grows]
        image = f"![time and memory over {grows}]({folder}/{grows}.svg)\n\n"
        shown = image if any(curve.name in found for curve in curves) else ""
        parts.append(
            f"## {title}\n\n{shown}{TABLE}\n" + "".join(_line(curve, found.get(curve.name)) for curve in curves)
        )
    parts += [_bends(found), MANY]
    return "\n".join(part for part in parts if part)


def _machine(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"Measured on {machine['processor']}, {machine['memory_gb']} GB, with {versions}.\n"


def _line(curve: Curve, found: Measured | None) -> str:
    cells = ["", "", f"{curve.expected:g}", "", ""]
    if found is not None and found.points:
        sizes, last = [point.size for point in found.points], found.points[-1]
        at = f" at {last.size:,}"
        cells[:2] = f"{_time(last.seconds)}{at}", _slope(exponent(sizes, [point.seconds for point in found.points]))
        memory = [point.bytes for point in found.points]
        slope = exponent(sizes, memory, memory=True)
        if last.bytes is not None:
            cells[3:] = "under 2 MB" if last.bytes < 2e6 else f"{last.bytes / 1e6:,.0f} MB{at}", _slope(slope)
    return "| " + " | ".join([curve.what, *cells, curve.why]) + " |\n"


def _slope(slope: float | None) -> str:
    return "" if slope is None else f"{slope:.2f}"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def _wanting(found: Measured) -> str:
    return f"time ({found.cap:g} s for all)" if found.reason == "time" else found.reason


def _bends(found: Mapping[str, Measured]) -> str:
    """Which curves are steeper than expected somewhere, and which sizes are missing."""
    if not found:
        return ""
    lines = []
    for curve in CURVES:
        if (one := found.get(curve.name)) is None:
            continue
        where = steep([point.size for point in one.points], [point.seconds for point in one.points], curve.expected)
        if where:
            ranges = ", ".join(f"from {low:,} to {high:,}" for low, high in where)
            lines.append(f"* {curve.what}, {curve.grows} {ranges}: {curve.bends or 'not explained'}.")
    bent = "\n".join(lines) or "None is."
    missing = [
        f"* {curve.what}: {', '.join(map('{:,}'.format, one.left_out))} {curve.grows}, for want of {_wanting(one)}."
        for curve in CURVES
        if (one := found.get(curve.name)) is not None and one.left_out
    ]
    text = f"## Where a curve bends upward\n\nBy {STEEPER:g} or more above its expected exponent:\n\n{bent}\n"
    return text + ("\n## Left out\n\n" + "\n".join(missing) + "\n" if missing else "")

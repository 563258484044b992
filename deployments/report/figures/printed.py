"""The papers' numbers beside the points of a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from deployments.pairs import UsageError
from deployments.papers import Printed, read
from deployments.report.figures.style import SOFT
from deployments.report.figures.words import Place
from deployments.report.selection import Run
from deployments.sweep.plan import DEFAULTS, SUPERNODES


def numbers(spec: Mapping[str, Any], source: str) -> list[Printed]:
    """The numbers of the table that a spec names by `paper`, "name, Table n"; none without it.

    Raises
    ------
    UsageError
    """
    name, _, table = (part.strip() for part in str(spec.get("paper", "")).partition(","))
    try:
        return read(name, table) if name else []
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None


def match(printed: Sequence[Printed], run: Run, where: Place, column: str) -> Printed | None:
    """The paper's number for a point: that of its method and data set, with the settings that tell it from others.

    Of several that would do, one that agrees with the run in all it says; a number that may be another's is none.
    """
    keys = {key for key, _ in where} | {"method", "dataset"}
    name = column.rpartition(".")[2]
    close = [
        one for one in printed
        if (not one.figure or one.figure.rpartition(".")[2] == name) and all(_agree(one, run, key) for key in keys)
    ]  # fmt: skip
    exact = [one for one in close if all(_agree(one, run, key) for key in one.settings if key in DEFAULTS)]
    found = exact or close
    return found[0] if len(found) == 1 else None


def _agree(one: Printed, run: Run, key: str) -> bool:
    """A paper's number need not say what is so by default, but its method, its data set and its clients it must."""
    said = one.settings.get(key, None if key in ("method", "dataset", SUPERNODES) else DEFAULTS[key])
    return bool(said == run.value(key))


def paper_key(spec: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """What hollow marks are, for a legend."""
    from matplotlib.lines import Line2D

    mark = Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor=SOFT, markersize=8)
    return [(mark, f"the paper's number, {str(spec['paper']).partition(',')[2].strip()}")]

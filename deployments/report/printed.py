"""The papers' numbers beside the cells of a table and the points of a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.papers import Printed, read
from curvfed.deployments.report.selection import Place, Run
from curvfed.deployments.sweep.plan import DEFAULTS, SUPERNODES


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
    """The paper's number for a run at a place: that of its method and data set, with the settings that tell it from others.

    A number without a method is one of the data. One that is held against nothing is no run's, and one of other clients is
    not this run's. Of several that would do, one that agrees with the run in all it says; a number that may be another's is
    none.
    """
    keys = {key for key, _ in where} | {"method", "dataset"}
    name = column.rpartition(".")[2]
    close = [
        one for one in printed
        if one.figure.rpartition(".")[2] == name
        and all(_agree(one, run, key) for key in keys | ({SUPERNODES} & one.settings.keys()))
    ]  # fmt: skip
    exact = [one for one in close if all(_agree(one, run, key) for key in one.settings if key in DEFAULTS)]
    found = exact or close
    return found[0] if len(found) == 1 else None


def default(key: str) -> Any:
    """What holds of a paper's number that does not say it: the default, but nothing for method, data set and clients."""
    return None if key in ("method", "dataset", SUPERNODES) else DEFAULTS[key]


def _agree(one: Printed, run: Run, key: str) -> bool:
    if key == "method" and key not in one.settings:
        return True
    return bool(one.settings.get(key, default(key)) == run.value(key))

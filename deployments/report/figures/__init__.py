"""The figures of a sweep: each kind is a module here with `PARTS` and `draw`, found by its name."""

import contextlib
import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures.series import NothingToDraw
from curvfed.deployments.report.selection import Run, matching, settings_of
from curvfed.server_app.report import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COMMON", "KINDS", "NothingToDraw", "check", "draw"]

KINDS = ("bars", "classes", "clients", "curvatures", "curves", "discs", "lines")

COMMON = {"kind", "title", "words", "where", "names", "paper"}
"""What a spec of any kind may say: which kind, title, words for below it, which runs, words in the place of values, and
whose printed numbers go beside ours ("name, Table n")."""

NOWHERE = Path(os.devnull, "run")
"""The folder of a run that has not been made."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> "Figure":
    """Draw a figure of `[[figures]]`.

    Parameters
    ----------
    spec : mapping
        `kind`, the parts of every kind and those of this one.
    runs : sequence of Run
        All of the sweep; those that are not completed are left out of the picture.
    source : str
        For error texts.

    Raises
    ------
    UsageError
        For a kind or a part that is not known, or a spec that cannot be followed; `NothingToDraw` where no completed run
        has what it shows.
    """
    module, chosen = _read(spec, runs, source)
    completed = [run for run in chosen if run.is_completed]
    if not completed:
        raise NothingToDraw(f"{source}: no run that the figure {spec.get('title', spec['kind'])!r} shows has completed")
    with style.applied():
        figure: Figure = module.draw(spec, completed, source)
    return figure


def check(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> None:
    """Refuse a spec that could not be followed, whatever its runs come to.

    Raises
    ------
    UsageError
    """
    module, chosen = _read(spec, runs, source)
    unmade = [replace(run, row={}, folder=NOWHERE) for run in chosen if not run.planned.refused]
    with contextlib.suppress(NothingToDraw):
        module.draw(spec, unmade, source)


def _read(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> tuple[ModuleType, list[Run]]:
    """Who draws the spec, and the runs that it shows."""
    kind = spec.get("kind")
    if kind not in KINDS:
        raise UsageError(f"{source}: kind = {kind!r} in [[figures]]; allowed is one of {', '.join(KINDS)}")
    module = importlib.import_module(f"{__name__}.{kind}")
    if unknown := sorted(set(spec) - COMMON - module.PARTS):
        allowed = ", ".join(sorted(COMMON | module.PARTS))
        raise UsageError(f"{source}: {unknown[0]!r} is not known in a figure of kind {kind}; allowed are {allowed}")
    if isinstance(base := spec.get("base", 0.0), bool) or not isinstance(base, int | float):
        raise UsageError(f"{source}: base = {base!r} in a figure; allowed is a number")
    settings_of(spec, "names", source)
    return module, matching(runs, settings_of(spec, "where", source), source)

"""The figures of a sweep, by the kind that a spec of `[[figures]]` names."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.server_app.report import curves, means, style
from curvfed.server_app.report.panels import NothingToDraw
from curvfed.server_app.report.selection import Run, matching, settings_of
from curvfed.server_app.report.study import Plan
from curvfed.strategies.base.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS: dict[str, tuple[Callable[[Mapping[str, Any], Sequence[Run], str], "Figure"], set[str]]] = {
    "bars": (means.draw_bars, means.BARS),
    "curves": (curves.draw, curves.PARTS),
    "lines": (means.draw_lines, means.LINES),
}
"""The function that draws a kind, and the parts of a spec that only this kind has. Other packages
may add kinds."""

COMMON = {"kind", "title", "words", "where", "names"}
"""Parts of a spec of any kind: the kind, title, words for below the figure, which runs, and words
in place of values."""

NOWHERE = Path(os.devnull, "run")
"""The folder of a run that was not made."""


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> "Figure":
    """Draw a figure of `[[figures]]`.

    Parameters
    ----------
    spec : mapping
        `kind`, the parts of every kind and those of this one.
    runs : sequence of Run
        All of the sweep; only completed ones are drawn.
    source : str
        For error texts.

    Raises
    ------
    ConfigError
        For an unknown kind or part, or a spec that cannot be followed; `NothingToDraw` if no
        completed run has the data.
    """
    draw_kind, chosen = _read(spec, runs, source)
    completed = [run for run in chosen if run.is_completed]
    if not completed:
        raise NothingToDraw(
            f"{source}: no run that the figure {spec.get('title', spec['kind'])!r} shows has"
            " completed",
            key="no-completed-run",
        )
    with style.applied():
        return draw_kind(spec, completed, source)


def check(spec: Mapping[str, Any], plan: Plan) -> None:
    """Refuse a spec that could not be followed, whatever the runs of the plan will result in.

    Raises
    ------
    ConfigError
    """
    runs = [Run(planned, {}, NOWHERE) for planned in plan.runs]
    draw_kind, chosen = _read(spec, runs, str(plan.path))
    with contextlib.suppress(NothingToDraw):
        draw_kind(spec, [run for run in chosen if not run.planned.refused], str(plan.path))


def _read(
    spec: Mapping[str, Any], runs: Sequence[Run], source: str
) -> tuple[Callable[..., "Figure"], list[Run]]:
    """The function that draws the spec, and the runs that it shows."""
    kind = spec.get("kind")
    if kind not in KINDS:
        raise ConfigError(
            f"{source}: kind = {kind!r} in [[figures]]; allowed is one of {', '.join(KINDS)}",
            key="figure-kind",
        )
    draw_kind, parts = KINDS[kind]
    if unknown := sorted(set(spec) - COMMON - parts):
        allowed = ", ".join(sorted(COMMON | parts))
        raise ConfigError(
            f"{source}: {unknown[0]!r} is not known in a figure of kind {kind}; allowed are"
            f" {allowed}",
            key="unknown-key",
        )
    if isinstance(base := spec.get("base", 0.0), bool) or not isinstance(base, int | float):
        raise ConfigError(
            f"{source}: base = {base!r} in a figure; allowed is a number", key="figure-base"
        )
    settings_of(spec, "names", source)
    return draw_kind, matching(runs, spec, source)

"""The picture of README.md: gains by the share of entities with several direct parents."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.extensions.reports.svg_files import svg_file
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.server_app.report import charts, style
from studies.hierarchies.cells import PREDICTIONS
from studies.hierarchies.record import is_generated

GROUPS = (("made by people", "o", style.MEAN), ("generated", "D", style.OTHER))
DIFFERENCES = {"curvature": "−1 minus 0", "gain": "−1 minus best flat"}


def draw(
    held_out: Sequence[Mapping[str, Any]],
    reconstructed: Sequence[Mapping[str, Any]],
    shapes: Mapping[str, Any],
    path: Path,
) -> None:
    """The gains by the share of entities with several parents, with their intervals: a row of
    panels for held-out links, with the predicted line, and one for reconstruction."""
    with style.applied():
        figure, panels = style.panels(4, 2)
        _row(panels[:2], held_out, shapes, "held-out links", "points of MRR")
        _row(panels[2:], reconstructed, shapes, "reconstruction", "points of mAP")
        ends = np.array([0.0, max(_share(item, shapes) for item in held_out)])
        line = PREDICTIONS["at_zero"] + PREDICTIONS["per_point"] * ends
        panels[1].plot(ends, line, color=style.SOFT, linewidth=1.2, label="predicted")
        handles, labels = panels[1].get_legend_handles_labels()
        legends.legend(figure, list(zip(handles, labels, strict=True)))
    path.write_text(svg_file(figure, path.stem), encoding="utf-8")


def _row(
    panels: Sequence[Any],
    entries: Sequence[Mapping[str, Any]],
    shapes: Mapping[str, Any],
    links: str,
    unit: str,
) -> None:
    """A panel for each difference of a table's entries."""
    shares = np.array([_share(item, shapes) for item in entries])
    is_made = np.array([not is_generated(item) for item in entries])
    dimension = entries[0]["dimension"]
    for axes, (name, words) in zip(panels, DIFFERENCES.items(), strict=True):
        means, low, high = np.array([item[name] for item in entries]).T
        heights = np.array([means - low, high - means])
        bars: dict[str, Any] = {"capsize": 2, "markersize": 4, "elinewidth": 1}
        for label, marker, color in GROUPS:
            shown = is_made == (label != "generated")
            marks = {"fmt": marker, "color": color, "label": label}
            axes.errorbar(shares[shown], means[shown], heights[:, shown], **bars | marks)
        axes.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        title = f"{links}, {dimension} dimensions:\n{words}"
        charts.name(axes, "several direct parents (%)", f"gain ({unit})", title)
    panels[1].sharey(panels[0])


def _share(entry: Mapping[str, Any], shapes: Mapping[str, Any]) -> float:
    """The percentage of entities with several direct parents."""
    return float(100 * shapes[entry["hierarchy"]]["several_parents"])

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


def draw(entries: Sequence[Mapping[str, Any]], shapes: Mapping[str, Any], path: Path) -> None:
    """The gains by the share of entities with several parents, with their intervals."""
    shares = np.array([100 * shapes[item["hierarchy"]]["several_parents"] for item in entries])
    is_made = np.array([not is_generated(item) for item in entries])
    with style.applied():
        figure, panels = style.panels(2)
        titles = ("curvature −1 minus 0", "curvature −1 minus best flat")
        for axes, name, title in zip(panels, ("curvature", "gain"), titles, strict=True):
            means, low, high = np.array([item[name] for item in entries]).T
            heights = np.array([means - low, high - means])
            bars: dict[str, Any] = {"capsize": 2, "markersize": 4, "elinewidth": 1}
            groups = (("made by people", "o", style.MEAN), ("generated", "D", style.OTHER))
            for label, marker, color in groups:
                shown = is_made == (label != "generated")
                marks = {"fmt": marker, "color": color, "label": label}
                axes.errorbar(shares[shown], means[shown], heights[:, shown], **bars | marks)
            axes.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
            x = "entities with several direct parents (%)"
            charts.name(axes, x, "gain (points of MRR)", title)
        panels[1].sharey(panels[0])
        ends = np.array([0.0, max(shares)])
        line = PREDICTIONS["at_zero"] + PREDICTIONS["per_point"] * ends
        panels[1].plot(ends, line, color=style.SOFT, linewidth=1.2, label="predicted")
        handles, labels = panels[1].get_legend_handles_labels()
        legends.legend(figure, list(zip(handles, labels, strict=True)))
    path.write_text(svg_file(figure, path.stem), encoding="utf-8")

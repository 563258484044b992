"""Legends of figures with several panels, and names of categories below a panel."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curvfed.server_app.report.charts import (
    LONGEST,
    SMALL,
    fitted,
    inches,
    panel_width,
    steps,
    wrapped,
)
from curvfed.server_app.report.page import printable

MOST_LINES = 3
"""Lines of a tick's label."""


def legend(figure: Any, keys: Sequence[tuple[Any, str]]) -> None:
    """Put a legend above all panels, in as many columns as have room, and make the figure that much
    higher."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if not keys:
        return
    texts = [wrapped(text, 62) for _, text in keys]
    widths = [inches(text) + 0.75 for text in texts]  # with the mark
    room = figure.get_figwidth()
    wide = [
        sum(map(max, np.array_split(widths, columns)))
        for columns in range(1, min(len(keys), 8) + 1)
    ]
    columns = max((number for number, width in enumerate(wide, 1) if width <= room), default=1)
    box = figure.legend([mark for mark, _ in keys], texts, loc="outside upper left", ncols=columns)
    canvas: Any = FigureCanvasAgg(figure)
    higher = box.get_window_extent(canvas.get_renderer()).height / figure.dpi
    figure.set_figheight(figure.get_figheight() + higher)


def categories(axes: Any, words: Sequence[str]) -> None:
    """Name the positions 0, 1, … of the x axis: in several lines, numbers in steps, or slanted if
    room is short."""
    room = 0.95 * panel_width(axes) / max(len(words), 1)
    widest = max(map(inches, words), default=0.0)
    broken = [fitted(text, room) for text in words]
    if widest > room and all(text.isdecimal() for text in words):
        steps(axes.set_xticks, words, int(panel_width(axes) / (widest + 0.15)))
    elif all("…" not in text and text.count("\n") < MOST_LINES for text in broken):
        axes.set_xticks(range(len(words)), broken)
    else:
        lines = [wrapped(text, LONGEST) for text in words]
        is_wide = room > 1.3 * SMALL / 72 * max(text.count("\n") + 1 for text in lines)
        short = lines if is_wide else [printable(text, 2 * LONGEST) for text in words]
        alone = axes.get_gridspec().ncols == 1
        # Next to another panel labels are vertical: slanted ones would reach into the panel before.
        slant = (
            {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
            if alone
            else {"rotation": 90}
        )
        axes.set_xticks(range(len(words)), short, **slant)
        if axes.get_subplotspec().is_first_col():  # the row gets as much higher as the labels need
            higher = (0.5 if alone else 1.0) * max(map(inches, short))
            axes.figure.set_figheight(axes.figure.get_figheight() + higher)

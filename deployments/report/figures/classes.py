"""How the classes are dealt to the clients."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curvfed.deployments.report.figures.series import NothingToDraw, keys_of, told_of_data
from curvfed.deployments.report.selection import Run
from curvfed.deployments.report.words import Names
from curvfed.server_app.directory.run_files import RunFiles, class_counts
from curvfed.server_app.report import labels, style

PARTS = {"panels"}
"""`panels`: keys that tell them apart, the data set and alpha if left out. Of several seeds the first is drawn."""

MOST = 13
"""Classes that have room for their names."""


class Dealt(NamedTuple):
    """Names, and how many examples each client has of each class."""

    clients: tuple[int, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a cell per client and class, the darker the larger the share of the class that the client has."""
    from matplotlib.colors import PowerNorm

    names = Names(spec.get("names", {}))
    shown = told_of_data(runs, keys_of(spec, "panels", source, ["dataset", "alpha"]), _dealt, source)
    if not shown:
        raise NothingToDraw(f"{source}: no completed run tells the class counts of its clients")
    height = 3.4 if len(shown) < 3 else 2.9
    figure, every = style.panels(len(shown), height=height)
    for (place, dealt), axes in zip(shown.items(), every, strict=True):
        seed, one = dealt[0]
        table = np.array(one.counts).T
        shares = np.ma.masked_equal(100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1), 0)
        image = axes.imshow(shares, norm=PowerNorm(0.5, 0, 100), cmap="Blues", aspect="auto", interpolation="none")
        axes.grid(False)
        axes.spines[:].set_visible(True)
        labels.categories(axes, list(map(str, one.clients)))
        labels.steps(axes.set_yticks, [labels.fitted(text, 1.0) for text in one.classes], MOST)
        labels.name(axes, f"client (seed {seed})", "class", names.place(place))
    bar = figure.colorbar(image, ax=every, aspect=35, pad=0.02, ticks=[0, 1, 5, 10, 25, 50, 100])
    bar.set_label(labels.fitted("share of the class's examples (%)", height - 1.0, style.LARGE))
    return figure


def _dealt(run: Run) -> Dealt | None:
    """What a run's clients tell of their classes; None if they do not."""
    files = RunFiles.read(run.folder)
    told = class_counts(files)
    classes = tuple(files.class_names)
    rows = tuple(tuple(mine.get(name, 0.0) for name in classes) for mine in told.values())
    return Dealt(tuple(told), classes, rows) if told else None

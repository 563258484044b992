"""How the classes are dealt to the clients."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.series import NothingToDraw, keys_of, told_of_data
from curvfed.deployments.report.figures.words import Names
from curvfed.deployments.report.selection import Run
from curvfed.server_app.run_files import RunFiles, own_classes

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

    names = Names(spec)
    shown = told_of_data(runs, keys_of(spec, "panels", source, ["dataset", "alpha"]), _dealt, source)
    if not shown:
        raise NothingToDraw(f"{source}: no completed run tells the class counts of its clients")
    height = 3.4 if len(shown) < 3 else 2.9
    figure, every = style.panels(len(shown), height=height)
    for (place, dealt), axes in zip(shown.items(), every, strict=True):
        seed, one = dealt[0]
        table = np.array(one.counts).T
        shares = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        image = axes.imshow(
            np.ma.masked_equal(shares, 0), norm=PowerNorm(0.5, 0, 100), cmap="Blues", aspect="auto",
            interpolation="none",
        )  # fmt: skip
        axes.grid(False)
        axes.spines[:].set_visible(True)
        _name(axes, one)
        style.name(axes, f"client (seed {seed})", "class", names.place(place))
    bar = figure.colorbar(image, ax=every, aspect=35, pad=0.02, ticks=[0, 1, 5, 10, 25, 50, 100])
    bar.set_label(style.fitted("share of the class's examples (%)", height - 1.0, style.LARGE))
    return figure


def _dealt(run: Run) -> Dealt | None:
    """What a run's clients tell of their classes; None if they do not."""
    files = RunFiles.read(run.folder)
    told = {}
    for about in files.clients:
        counts = (about.get("statistics") or {}).get("class_counts")
        if counts and len(counts) == len(own_classes(about)):
            told[int(about["partition"])] = dict(zip(own_classes(about), counts, strict=True))
    if not told:
        return None
    classes = tuple(files.class_names)
    return Dealt(tuple(told), classes, tuple(tuple(mine.get(name, 0.0) for name in classes) for mine in told.values()))


def _name(axes: Any, one: Dealt) -> None:
    """Name the clients below, and the classes at the side as far as there is room."""
    style.categories(axes, list(map(str, one.clients)))
    style.steps(axes.set_yticks, [style.fitted(text, 1.0) for text in one.classes], MOST)

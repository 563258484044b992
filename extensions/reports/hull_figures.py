"""The pictures of a one-shot run: points, hulls and decisions on the Poincaré disc of radius 1, the
geodesics between them, and the confusion of classes."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from curvfed.extensions.reports import shapes
from curvfed.extensions.reports.array_files import HullFile, hulls_of
from curvfed.extensions.reports.class_scores import confusion_of, count_pairs
from curvfed.geometry.arrays import Floats
from curvfed.geometry.hull import from_klein, to_klein
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Picture, printable

GRID = 160
"""Pixels along a side of the map of decisions."""

MOST_DOTS = 3000
"""Points that are drawn: the first ones, which the server has put in a random order."""

SMOOTH = 0.15
"""Largest distance, in points of print, of a drawn polyline from its geodesic."""

MANY = 400
"""Points, or corners, beyond which they are drawn smaller."""

NEAR = 0.5
"""Share of the disc's radius within which all points must lie for a closer view."""

MOST_KEYS = 24
"""Groups that the legend names."""

_SIDE = 340.0  # the disc in points of print, about


def view(points: Floats) -> tuple[Floats, float]:
    """Centre and half the side of a square around all points: the whole disc unless they lie near
    its origin."""
    if float(np.hypot(*points.T).max(initial=0.0 if len(points) else 1.0)) >= NEAR:
        return np.zeros(2), 1.02
    low = points.min(axis=0)
    high = points.max(axis=0)
    extent = float((high - low).max())
    return (low + high) / 2, 0.55 * extent if extent > 0 else 0.1


@dataclass(frozen=True, eq=False)
class Disc:
    """Axes that show the disc of a hull run.

    Attributes
    ----------
    file : HullFile
    axes : matplotlib Axes
    centre : array (2,)
    half : float
        Half the side of the view.
    pixel : float
        The size of a point of print in the disc.
    bold : float
        Width of lines over that on the page of a run.
    """

    file: HullFile
    axes: Any
    centre: Floats
    half: float
    pixel: float
    bold: float = 1.0

    def __post_init__(self) -> None:
        """Draw the rim, and set the view."""
        shapes.unit_circle(self.axes, self.centre, self.half)

    @cached_property
    def of_group(self) -> list[int]:
        """The number of each group's colour: its class's, or for a group without a name one after
        those."""
        classes = self.file.class_names
        free = iter(range(len(classes), len(classes) + len(self.file.names)))
        return [classes.index(name) if name in classes else next(free) for name in self.file.names]

    @cached_property
    def colours(self) -> list[str]:
        """The colours of the classes, and of groups without a name."""
        return list(shapes.hues(max(len(self.file.class_names), 1 + max(self.of_group))))

    def points(self, marked: bool = False) -> int:
        """Draw training points in the colours of their classes, as dots or with markers; returns
        how many."""
        sample = scaled(self.file, self.file.sample.points[:MOST_DOTS])
        labels = self.file.sample.labels[:MOST_DOTS]
        for label in np.unique(labels):
            of_class = sample[labels == label]
            colour = self.colours[label]
            if marked:
                look = {
                    "marker": style.MARKERS[label % len(style.MARKERS)],
                    "color": colour,
                    "alpha": 0.45,
                }
                self.axes.scatter(*of_class.T, s=7, linewidth=0, rasterized=True, **look)
            else:
                shapes.dots(
                    self.axes, of_class, colour, 2.2 if len(sample) > MANY else 3.0, alpha=0.4
                )
        return len(sample)

    def hulls(self) -> None:
        """Draw the hulls before quantisation, dashed, and those that the server decoded, filled."""
        from matplotlib.colors import to_rgba

        dashed = {"linewidth": 0.7 * self.bold, "linestyle": (0, (3, 2)), "alpha": 0.9}
        for label in sorted({label for label, _ in self.file.true_hulls}):
            true = [
                scaled(self.file, corners)
                for hull_label, corners in self.file.true_hulls
                if hull_label == label
            ]
            lines = [outline(corners, self.pixel) for corners in true]
            shapes.stroke(self.axes, lines, edgecolor=self.colours[label], **dashed)
        is_dense = len(self.file.points) > MANY
        for group in self.file.groups:
            colour = self.colours[self.of_group[group]]
            corner_sets = [
                scaled(self.file, hull.corners) for hull in self.file.hulls if hull.group == group
            ]
            lines = [outline(corners, self.pixel) for corners in corner_sets]
            width = self.bold * (0.7 if is_dense else 1.0)
            shapes.stroke(
                self.axes, lines, to_rgba(colour, 0.12), edgecolor=colour, linewidth=width
            )
            shapes.dots(self.axes, np.concatenate(corner_sets), colour, 1.6 if is_dense else 2.6)

    def geodesics(self) -> int:
        """Draw the classifier's decisions with a diamond at each reference point; returns how many.

        A single one has the colour of text.
        """
        file = self.file
        single = len(self.file.references) == 1
        shades = [
            style.INK if single else self.colours[self.of_group[group]] for group in file.groups
        ]
        decisions = list(zip(shades, scaled(file, file.references), file.normals, strict=False))
        for shade, reference, normal in decisions:
            if normal.any():
                lines = [perpendicular(reference, normal, self.pixel)]
                width = self.bold * (1.8 if single else 1.1)
                shapes.stroke(self.axes, lines, edgecolor=shade, linewidth=width)
            edge = {"markeredgecolor": style.PAPER, "markeredgewidth": 0.8}
            self.axes.plot(*reference, "D", color=shade, markersize=5, **edge)
        return len(decisions)

    def wrong(self) -> int:
        """Draw a cross on each wrongly predicted test point; returns how many."""
        missed = self.file.test.labels != self.file.predicted
        points = scaled(self.file, self.file.test.points[missed][:MOST_DOTS])
        cross = np.array([[[-1, -1], [1, 1]], [[-1, 1], [1, -1]]])
        reach = 2.2 * self.pixel * cross
        shapes.stroke(
            self.axes,
            (points[:, None, None] + reach).reshape(-1, 2, 2),
            edgecolor=style.INK,
            linewidth=0.9,
        )
        return len(points)

    def decisions(self) -> bool:
        """Colour the background lightly by the group that the classifier predicts; returns whether
        there is one."""
        from matplotlib.colors import ListedColormap, to_rgba

        if self.file.classifier is None:
            return False
        (x, y) = self.centre
        half = self.half
        steps = half * (2 * np.arange(GRID) + 1 - GRID) / GRID
        grid = np.stack(np.meshgrid(x + steps, y + steps), axis=-1)
        inside = np.square(grid).sum(axis=-1) < 0.999**2
        group = np.zeros((GRID, GRID), int)
        group[inside] = self.file.classifier.predict(grid[inside] / root(self.file))
        light = ListedColormap([to_rgba(self.colours[colour], 0.13) for colour in self.of_group])
        extent = (x - half, x + half, y - half, y + half)
        shown = {
            "interpolation": "none",
            "origin": "lower",
            "vmin": -0.5,
            "vmax": len(self.of_group) - 0.5,
        }
        self.axes.imshow(np.ma.masked_where(~inside, group), cmap=light, extent=extent, **shown)
        return True


def root(file: HullFile) -> float:
    """The factor that scales the run's disc to radius 1."""
    return math.sqrt(-file.curvature)


def scaled(file: HullFile, points: Floats) -> Floats:
    """Points (n, 2) in the disc scaled to radius 1."""
    return root(file) * points


def everything(file: HullFile) -> Floats:
    """All points (n, 2) that must be in view."""
    corners = [*(hull.corners for hull in file.hulls), *(points for _, points in file.true_hulls)]
    return scaled(file, np.concatenate([file.sample.points[:MOST_DOTS], *corners]))


def geodesic(start: Floats, end: Floats, pixel: float) -> Floats:
    """Points (n, 2) along the geodesic between two points of the closed unit disc, dense enough to
    look like it.

    Parameters
    ----------
    pixel : float
        The size of a point of print in the disc.
    """
    ends = np.array([start, end])
    klein = to_klein(ends)  # geodesics are straight there
    middle = from_klein(klein.mean(axis=0, keepdims=True))[0]
    sag = float(np.hypot(*(middle - ends.mean(axis=0))))
    number = 1 + math.ceil(math.sqrt(1.5 * sag / (SMOOTH * pixel)))
    # The points are denser towards the ends: near the boundary the disc's metric is denser too.
    shares = (1 - np.cos(np.linspace(0, np.pi, number + 1))) / 2
    line = from_klein(klein[0] + shares[:, None] * (klein[1] - klein[0]))
    line[0] = start
    line[-1] = end
    return line


def outline(corners: Floats, pixel: float) -> Floats:
    """The closed line of a polygon; two corners give a line back and forth, one corner a line of
    length 0."""
    sides = [
        geodesic(start, end, pixel)[:-1]
        for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    ]
    return np.concatenate([*sides, corners[:1]])


def perpendicular(reference: Floats, normal: Floats, pixel: float) -> Floats:
    """The geodesic (n, 2) through a point, at right angles to a normal that is not 0."""
    direction = np.array([-normal[1], normal[0]]) / float(np.hypot(*normal))
    return geodesic(_end(reference, -direction), _end(reference, direction), pixel)


def _end(point: Floats, unit: Floats) -> Floats:
    """The end on the boundary of the geodesic from a point along a unit vector: point ⊕ unit."""
    along = 2 * float(point @ unit)
    square = float(point @ point)
    far: Floats = (2 + along) * point + (1 - square) * unit
    return far / float(np.hypot(*far))


def confusion(run: RunFiles) -> Picture | None:
    """True by predicted classes of the test points."""
    file = hulls_of(run)
    if file is None or not len(file.test.labels):
        return None
    return confusion_of(count_pairs(file.test.labels, file.predicted), file.class_names, "points")


def disc(run: RunFiles) -> Picture | None:
    """Points, hulls and decisions on the Poincaré disc."""
    file = hulls_of(run)
    assert file is not None
    centre, half = view(everything(file))
    disc = Disc(file, style.page_axes(5.3), centre, half, 2 * half / _SIDE)
    is_decided = disc.decisions()
    dots = disc.points()
    disc.hulls()
    lines = disc.geodesics()
    disc.wrong()
    groups = sorted(
        (colour, name or f"group {number}")
        for number, (colour, name) in enumerate(zip(disc.of_group, file.names, strict=True), 1)
    )
    keys = [
        charts.key(
            printable(name, charts.LONGEST), color=disc.colours[colour], linewidth=4, alpha=0.8
        )
        for colour, name in groups[:MOST_KEYS]
    ]
    shapes.class_legend(disc.axes, keys)
    wrong = int(np.sum(file.test.labels != file.predicted))
    sentences = {
        "Filled are the hulls that the server decoded.": len(file.hulls),
        "Dashed are the hulls before quantisation.": len(file.true_hulls),
        "Dots are training points, which the server sees in a simulation alone.": dots,
        "Lines are decisions, diamonds their reference points.": lines,
        "The background is what the classifier decides.": is_decided,
        f"Crosses are the {wrong:,} test points that are predicted wrongly.": wrong,
        f"The view is {1 / half:.3g} times less wide than the disc.": half < 1,
    }
    caption = " ".join(text for text, is_told in sentences.items() if is_told)
    return Picture(disc.axes.figure, f"Poincaré disc of {len(file.hulls)} hulls", caption)

"""The picture of a run on links: all entities in a disc, with their names and neighbours under the
mouse."""

from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup, escape

from curvfed.geometry.arrays import Floats, Indices
from curvfed.server_app.directory.array_files import read_npz
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.page import Picture
from curvfed.server_app.report.parts import CURVES, Parts
from curvfed.server_app.report.run_figures import loss, score
from curvfed.tasks.kinds import ADDED

ARRAYS = ADDED["links"].arrays_file

MOST = 2000
"""Entities that are drawn: those with most links."""

FEW = 400
"""Maximum number of entities with large dots."""

NEIGHBOURS = 5


@dataclass(frozen=True)
class Drawing(Picture):
    """A picture that is SVG already."""

    svg: str = ""

    @property
    def html(self) -> Markup:
        """The picture in a page."""
        return Markup(self.svg)


def add(run: RunFiles, parts: Parts) -> Parts:
    """The parts of a page, of a run on links with the picture of its entities first."""
    if not run.optional(ARRAYS, read_npz):
        return parts
    pictures = [draw for draw in parts.pictures if draw not in CURVES]
    return replace(parts, pictures=[disc, score, loss, *pictures], main=[disc, *parts.main])


def disc(run: RunFiles) -> Picture | None:
    """Entities by their distance from the origin, and in two main directions."""
    links = run.optional(ARRAYS, read_npz)
    if len(links["names"]) < 3:
        return None
    rows = links["rows"].astype(float)
    is_curved = bool(links["is_curved"])
    points = rows[:, :-1] if is_curved else rows
    triples = links["triples"]
    degree = np.bincount(triples[:, [0, 2]].ravel(), minlength=len(points))
    shown = np.sort(np.argsort(-degree, kind="stable")[:MOST])
    flat = in_disc(points, is_curved)
    near = neighbours(points, shown, is_curved)
    names = links["names"]
    parents: dict[int, int] = {}
    for head, tail in triples[:, [0, 2]].tolist():
        if head not in parents or degree[tail] < degree[parents[head]]:
            parents[head] = tail
    lines = []
    for head, tail in parents.items():
        if head in near and tail in near:
            start = ",".join(_at(flat[head]))
            end = ",".join(_at(flat[tail]))
            lines.append(f'<path d="M{start}L{end}"/>')
    radius = 12 if len(shown) <= FEW else 6
    dots = []
    for entity in shown.tolist():
        x, y = _at(flat[entity])
        text = f"{names[entity]}; nearest: {', '.join(map(str, names[near[entity]]))}"
        title = f"<title>{escape(text)}</title>"
        dots.append(f'<circle cx="{x}" cy="{y}" r="{radius}">{title}</circle>')
    count = f"{len(shown):,} of {len(names):,} entities"
    caption = f"{count}; the mouse shows a name and its nearest entities."
    if points.shape[1] > 2:
        caption += " Directions are the two main ones; distances from the centre are true."
    title = "Entities in the disc"
    svg = (
        f'<svg viewBox="-1015 -1015 2030 2030" role="img" aria-label="{title}. {caption}">'
        '<circle r="1000" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
        f'<g stroke="currentColor" stroke-opacity=".15">{"".join(lines)}</g>'
        # The stroke is not seen, but a mouse near the dot is on it.
        '<g fill="var(--mean)" fill-opacity=".8" stroke="transparent" stroke-width="16">'
        f"{''.join(dots)}</g></svg>"
    )
    return Drawing(None, title, caption, svg=svg)


def in_disc(points: Floats, is_curved: bool) -> Floats:
    """Points (N, 2) of the unit disc with the lengths of points (N, d), and the directions of their
    two main components; flat points are scaled."""
    if not is_curved:
        points = points - points.mean(axis=0)
        radius = np.linalg.norm(points, axis=1).max()
        points = points / max(radius, 1e-30)
    if points.shape[1] == 2:
        return points
    length = np.linalg.norm(points, axis=1, keepdims=True)
    units = points / np.maximum(length, 1e-30)
    main = np.linalg.svd(units - units.mean(axis=0), full_matrices=False)[2][:2]
    plane = units @ main.T
    flat: Floats = length * plane
    flat /= np.maximum(np.linalg.norm(plane, axis=1, keepdims=True), 1e-30)
    return flat


def neighbours(points: Floats, shown: Indices, is_curved: bool) -> dict[int, list[int]]:
    """The nearest of the shown entities to each of them."""
    rows = points[shown]
    squares = (rows * rows).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)
    if is_curved:
        defects = np.maximum(1 - squares, 1e-12)
        apart = apart / defects / defects[:, None]
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1)[:, :NEIGHBOURS]
    return {int(entity): shown[row].tolist() for entity, row in zip(shown, nearest, strict=True)}


def _at(point: Floats) -> tuple[str, str]:
    """The place in the SVG; its y grows downwards."""
    return f"{1000 * point[0]:.0f}", f"{-1000 * point[1]:.0f}"

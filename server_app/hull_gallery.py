"""From the files of a one-shot run to its pictures, each with a caption and in words."""

import math
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app import hull_pictures as pictures
from curvfed.server_app.hull_file import HullFile
from curvfed.server_app.hull_outcome import own_classifier
from curvfed.server_app.hull_pictures import GRID, Curve, Disc
from curvfed.server_app.page import Html, amount, figure
from curvfed.server_app.run_files import RunFiles

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_DOTS = 3000
"""Training points that are drawn; of more the first, which the server has put in a random order."""

NEAR = 0.5
"""Share of the disc's radius within which everything must lie for a closer view."""


def hull_gallery(run: RunFiles) -> list[Html]:
    """The disc, and the curves over epsilon; nothing where there are no hulls."""
    if run.hulls is None:
        return []
    return [_disc(run.hulls), *_sweep(run.hulls, own_classifier(run))]


def _disc(file: HullFile) -> Html:
    root = math.sqrt(-file.curvature)
    of_group = group_colours(file)
    kept, labels = root * file.sample.points[:MOST_DOTS], file.sample.labels[:MOST_DOTS]
    missed = file.test.labels != file.predicted
    hulls = [(of_group[hull.group], root * hull.corners) for hull in file.hulls]
    true = [(one, root * corners) for one, corners in file.true_hulls]
    centre, half = view(np.concatenate([kept, *(corners for _, corners in [*hulls, *true])]))
    single = len(file.references) == 1
    seen = Disc(
        centre,
        half,
        sorted(((name or f"group {one + 1}", of_group[one]) for one, name in enumerate(file.names)), key=itemgetter(1)),
        max([len(file.class_names), *(colour + 1 for colour in of_group)]),
        hulls,
        true,
        [(int(one), kept[labels == one]) for one in np.unique(labels)],
        root * file.test.points[missed][:MOST_DOTS],
        [
            (None if single else of_group[one], root * reference, normal)
            for one, reference, normal in zip(file.groups, file.references, file.normals, strict=False)
        ],
        _decisions(file, np.array(of_group), centre, half),
    )
    clients = len({hull.client for hull in file.hulls})
    alt = (
        f"Poincaré disc with {amount(len(hulls), 'convex hull')} of {amount(clients, 'client')} in "
        f"{amount(len(file.groups), 'group')}{_also(seen)}."
    )
    return figure(pictures.disc("disc", seen, alt), _caption(file, seen, int(missed.sum())))


def group_colours(file: HullFile) -> list[int]:
    """Numbers of the groups' colours: a group's is its class's; groups without a name take the colours after those."""
    used = [file.class_names.index(name) if name in file.class_names else -1 for name in file.names]
    free = iter(range(len(file.class_names), len(file.class_names) + len(used)))
    return [next(free) if one < 0 else one for one in used]


def view(points: Array) -> tuple[Array, float]:
    """Centre and half the side of a square around everything: the whole disc unless all lies near its origin."""
    if float(np.hypot(*points.T).max()) >= NEAR:
        return np.zeros(2), 1.02
    low, high = points.min(axis=0), points.max(axis=0)
    extent = float((high - low).max())
    return (low + high) / 2, 0.55 * extent if extent > 0 else 0.1


def _decisions(file: HullFile, of_group: Integers, centre: Array, half: float) -> Integers | None:
    """The colour of the group that the classifier gives every pixel."""
    if file.classifier is None:
        return None
    at = half * (2 * np.arange(GRID) + 1 - GRID) / GRID
    x, y = centre[0] + at, centre[1] + at
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    inside = np.square(grid).sum(axis=1) < 0.999**2
    colours = np.full(len(grid), -1)
    colours[inside] = of_group[file.classifier.predict(grid[inside] / math.sqrt(-file.curvature))]
    return colours.reshape(GRID, GRID)


def _also(seen: Disc) -> str:
    """What is drawn besides the hulls, for those who do not see it."""
    dots = sum(len(points) for _, points in seen.dots)
    parts = [amount(dots, "training point")] if dots else []
    parts += ["the hulls before quantisation"] if seen.true_hulls else []
    parts += [amount(len(seen.lines), "decision geodesic")] if seen.lines else []
    parts += [f"{amount(len(seen.wrong), 'test point')} predicted wrongly"] if len(seen.wrong) else []
    return f", with {', '.join(parts)}" if parts else ""


def _caption(file: HullFile, seen: Disc, missed: int) -> str:
    dots = sum(len(points) for _, points in seen.dots)
    text = "Filled are the hulls that the server decoded, in the colour of their group"
    text += "." if any(file.names) else "; the server does not know which class a group is."
    if seen.true_hulls:
        which = "the same hulls" if len(seen.true_hulls) == len(seen.hulls) else "the hulls of all clients"
        text += f" Dashed are {which} before quantisation, in the colour of their class."
    if dots:
        rest = f" ({dots:,} are drawn)" if dots < len(file.sample.points) else ""
        text += f" Dots are training points{rest}, which the server sees in a simulation alone."
    if len(seen.lines) == 1:
        text += " The line is the classifier's decision, the diamond its reference point."
    elif seen.lines:
        text += " Thin lines part a group from all others, each through its reference point, a diamond."
    if seen.decisions is not None:
        text += " The background is what the classifier decides."
    if missed:
        text += f" Crosses are the test points that are predicted wrongly, {missed:,} of {len(file.test.labels):,}."
    if not seen.whole:
        text += _scale(file, seen)
    return text


def _scale(file: HullFile, seen: Disc) -> str:
    """How wide a closer view is."""
    ends = seen.centre + np.array([[-seen.half, 0.0], [seen.half, 0.0]])
    gaps = 1 - np.square(ends).sum(axis=1)
    if (gaps <= 0).any():
        return " The view is a part of the disc."
    wide = 2 / math.sqrt(-file.curvature) * math.asinh(2 * seen.half / math.sqrt(float(gaps.prod())))
    part = f"The view is {1 / seen.half:.3g} times less wide than the disc"
    return f" {part}, and {wide:.3g} from side to side in hyperbolic distance."


def _sweep(file: HullFile, classifier: str) -> list[Html]:
    """Accuracy, vertices and what is revealed, against epsilon."""
    if not file.sweep:
        return []
    order = np.argsort(file.sweep["epsilon"], kind="stable")
    order = order[file.sweep["epsilon"][order] > 0]
    told = {name: column[order] for name, column in file.sweep.items()}
    epsilon = told["epsilon"]
    drawn = (
        ("sweep-accuracy", "Test accuracy", "test accuracy (%)", "%", [Curve(classifier, 100 * told["flp"]),
         Curve("Euclidean SVM", 100 * told["fle"], ours=False)]),
        ("sweep-vertices", "Vertices of the clients' hulls", "vertices of a hull", "", [
         Curve("mean", told["vertices_mean"]), Curve("most", told["vertices_max"], ours=False)]),
        ("sweep-share", "Share of the training points that leave the clients, as bins,", "share of points revealed (%)",
         "%", [Curve("revealed", 100 * told["share"])]),
    )  # fmt: skip
    found = []
    for name, title, axis, unit, curves in drawn:
        if any(np.isfinite(curve.values).any() for curve in curves):
            words = " ".join(_in_words(epsilon, curve, unit) for curve in curves)
            alt = f"Line chart of {axis.removesuffix(' (%)')} by epsilon. {words}"
            picture = pictures.over_epsilon(name, epsilon, curves, axis, file.epsilon, alt)
            found.append(figure(picture, f"{title} against the quantisation's ε.{_failed(epsilon, curves)}"))
    return found


def _in_words(epsilon: Array, curve: Curve, unit: str) -> str:
    there = np.flatnonzero(np.isfinite(curve.values))
    if not len(there):
        return f"{curve.label}: nothing."
    ends = [f"{curve.values[one]:.2f}{unit} at {epsilon[one]:g}" for one in dict.fromkeys((there[0], there[-1]))]
    return f"{curve.label[0].upper()}{curve.label[1:]}: {' to '.join(ends)}."


def _failed(epsilon: Array, curves: list[Curve]) -> str:
    lost = epsilon[~np.isfinite([curve.values for curve in curves]).any(axis=0)]
    return f" Nothing came of ε = {', '.join(f'{one:g}' for one in lost)}." if len(lost) else ""

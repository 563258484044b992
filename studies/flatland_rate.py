"""How fast FlatLand's rounds converge: Appendix D.4 of its paper, on a strongly convex problem.

    python -m studies.flatland_rate [--folder docs/measured]

draws the figure and prints the rows of `docs/measured/flatland-theorems.md`; a minute or two. It
needs no data, and `python -m studies.flatland_theorems` calls it for its page.

The problem: each client has points in a Lorentz space of its own curvature, and classifies them by
m x_t + M x_s, the space coordinates of FlatLand's layer (Eq. 4), with cross-entropy and an L2
penalty: strongly convex and smooth in the shared M and all personal m together. The steps are those
of the theorem that D.4 rests on (Li et al., "On the convergence of FedAvg on non-iid data", 2020,
Theorem 1): an example drawn with replacement, at the rate 2/(μ(γ + t)).
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.geometry import lorentz
from curvfed.geometry.arrays import Floats
from curvfed.server_app.report import charts, style

CLIENTS = 10
EXAMPLES = 40
"""Of each client."""

DIM = 4
SCALE = 0.5
"""Of the tangent vectors, which gives them norms of about 1, as FlatLand's features have."""

CLASSES = 3
PENALTY = 0.1
"""μ of the penalty μ/2 ‖(m, M)‖²."""

STEPS = 5
"""Local steps of a round."""

ROUNDS = 10_000
SEEDS = 20
"""Runs whose gaps are averaged."""

LAST = 10
"""The slope is fitted to the rounds from ROUNDS/LAST on."""

ROWS = """\
| rounds of | curvatures | rate | gap at {first:,} | at {last:,} | slope |
| --- | --- | --- | ---: | ---: | ---: |"""


@dataclass(frozen=True)
class Problem:
    """The clients' examples.

    Attributes
    ----------
    points : array (C, n, 1 + d)
        Time in units of the radius, then space coordinates.
    labels : array (C, n), of whole numbers
    """

    points: Floats
    labels: NDArray[np.int64]

    @property
    def smoothness(self) -> float:
        """A bound L on the second derivatives of a client's loss: that of softmax is at most 1/2."""
        squares = np.einsum("cni,cnj->cij", self.points, self.points) / self.points.shape[1]
        return float(np.linalg.eigvalsh(squares).max()) / 2 + PENALTY


def problem(curvatures: Floats, seed: int = 0) -> Problem:
    """Normal points, lifted to each client's curvature, and labels by weights that differ between
    the clients.

    Parameters
    ----------
    curvatures : array (C,)
        At most 0; at 0 the time is 1.
    seed : int
    """
    rng = np.random.default_rng(seed)
    tangents = torch.from_numpy(SCALE * rng.standard_normal((len(curvatures), EXAMPLES, DIM)))
    shared = rng.standard_normal((CLASSES, DIM))
    personal = 2 * rng.standard_normal((len(curvatures), CLASSES, 1))
    noise = rng.gumbel(size=(len(curvatures), EXAMPLES, CLASSES))
    points = np.stack([_lifted(*pair) for pair in zip(tangents, curvatures, strict=True)])
    scores = points[..., 1:] @ shared.T + points[..., :1] * personal.transpose(0, 2, 1)
    return Problem(points, (scores + noise).argmax(axis=2))


def _lifted(tangents: torch.Tensor, curvature: float) -> Floats:
    """Points (n, 1 + d) of tangent vectors (n, d) at the origin."""
    if not curvature:
        return np.insert(tangents.numpy(), 0, 1.0, axis=1)
    points: Floats = lorentz.exp0(tangents, curvature).numpy()
    points[:, 0] *= (-curvature) ** 0.5
    return points


def gradients(weights: Floats, points: Floats, labels: NDArray[np.int64]) -> Floats:
    """Of the mean loss with its penalty: (..., C, k, 1 + d), from weights of this shape, points
    (..., C, n, 1 + d) and labels (..., C, n)."""
    logits = points @ weights.swapaxes(-1, -2)
    errors = np.exp(logits - logits.max(axis=-1, keepdims=True))
    errors /= errors.sum(axis=-1, keepdims=True)
    chosen = labels[..., None]
    own = np.take_along_axis(errors, chosen, axis=-1)
    np.put_along_axis(errors, chosen, own - 1, axis=-1)
    slopes: Floats = errors.swapaxes(-1, -2) @ points / points.shape[-2]
    return slopes + PENALTY * weights


def objective(weights: Floats, of: Problem) -> Floats:
    """ℓ, the mean of the clients' losses with their penalties: (...,) from (..., C, k, 1 + d)."""
    logits = of.points @ weights.swapaxes(-1, -2)
    largest = logits.max(axis=-1)
    normal = np.log(np.exp(logits - largest[..., None]).sum(axis=-1)) + largest
    labels = np.broadcast_to(of.labels, logits.shape[:-1])[..., None]
    losses = normal - np.take_along_axis(logits, labels, axis=-1)[..., 0]
    penalties = PENALTY / 2 * np.square(weights).sum(axis=(-1, -2))
    means: Floats = (losses.mean(axis=-1) + penalties).mean(axis=-1)
    return means


def averaged(weights: Floats, first: int) -> Floats:
    """The server's step: the columns from `first` on are the mean over the clients; FlatLand's
    first is 1, FedAvg's 0."""
    shared = weights[..., first:].mean(axis=-3, keepdims=True)
    shared = np.broadcast_to(shared, weights[..., first:].shape)
    return np.concatenate([weights[..., :first], shared], axis=-1)


def optimum(of: Problem, first: int) -> Floats:
    """The weights (C, k, 1 + d) of the least objective with these columns shared."""
    shape = (len(of.points), CLASSES, of.points.shape[2])

    def value(numbers: Floats) -> tuple[float, Floats]:
        weights = averaged(numbers.reshape(shape), first)
        slopes = gradients(weights, of.points, of.labels) / len(of.points)
        return float(objective(weights, of)), averaged(slopes, first).ravel()

    # Averages of averages change nothing, so the descent stays where columns are shared.
    options = {"maxiter": 100_000, "ftol": 0.0, "gtol": 1e-13, "maxcor": 50}
    best = minimize(value, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options)
    return averaged(best.x.reshape(shape), first)


def rounds(of: Problem, first: int, rate: str, seeds: int = SEEDS) -> Iterator[Floats]:
    """The weights (S, C, k, 1 + d) after each round, from 0; each run draws by itself.

    Parameters
    ----------
    of : Problem
    first : int
        As in `averaged`.
    rate : str
        "falling": 2/(μ(γ + t)) after t local steps, γ = max(8L/μ, STEPS); or "constant": the first
        of these.
    seeds : int
        S.
    """
    rng = np.random.default_rng(1)
    count = len(of.points)
    weights = np.zeros((seeds, count, CLASSES, of.points.shape[2]))
    late = max(8 * of.smoothness / PENALTY, STEPS)
    clients = np.arange(count)
    step = 0
    while True:
        for _ in range(STEPS):
            drawn = rng.integers(EXAMPLES, size=(seeds, count))
            points = of.points[clients, drawn][:, :, None]
            labels = of.labels[clients, drawn][:, :, None]
            size = 2 / (PENALTY * (late + step))
            weights = weights - size * gradients(weights, points, labels)
            step += rate == "falling"
        weights = averaged(weights, first)
        yield weights


def gaps(of: Problem, first: int, rate: str, seeds: int, at: NDArray[np.int64]) -> Floats:
    """The mean over the runs of ℓ − ℓ* after these numbers of rounds, ascending: (R,)."""
    least = float(objective(optimum(of, first), of))
    values: list[float] = []
    for number, weights in enumerate(rounds(of, first, rate, seeds), 1):
        if number == at[len(values)]:
            values.append(float(objective(weights, of).mean()) - least)
        if len(values) == len(at):
            break
    return np.array(values)


def slope(at: NDArray[np.int64], values: Floats) -> float:
    """The exponent of the gap as a power of the rounds, by least squares over the last rounds."""
    late = at >= at[-1] / LAST
    return float(np.polyfit(np.log(at[late]), np.log(values[late]), 1)[0])


def least_gradients(of: Problem, number: int) -> tuple[Floats, float]:
    """D.4's own case, one step on all examples at the rate 1/L in a round.

    Returns
    -------
    array (T,)
        The least ‖∇ℓ‖² up to each round, ∇ℓ by the shared columns and each client's own.
    float
        2L(ℓ⁰ − ℓ*): over T, the bound of Eq. 32 with its sign and square mended.
    """
    count = len(of.points)
    weights = np.zeros((count, CLASSES, of.points.shape[2]))
    first_gap = float(objective(weights, of) - objective(optimum(of, 1), of))
    squares = []
    for _ in range(number):
        slopes = gradients(weights, of.points, of.labels)
        shared = slopes[..., 1:].mean(axis=0)
        squares.append(float(np.square(shared).sum() + np.square(slopes[..., :1] / count).sum()))
        weights = averaged(weights - slopes / of.smoothness, 1)
    return np.minimum.accumulate(squares), 2 * of.smoothness * first_gap


def tailored() -> Problem:
    """The problem whose clients have the curvatures that E.2 allows, from −2 to −2/3."""
    return problem(np.linspace(-2, -2 / 3, CLIENTS))


CASES = (
    ("FlatLand", "−2 to −2/3", 1, "falling"),
    ("FlatLand", "0", 1, "falling"),
    ("FedAvg", "−2 to −2/3", 0, "falling"),
    ("FlatLand", "−2 to −2/3", 1, "constant"),
)
"""Whose rounds, the clients' curvatures, the first shared column, and the rate."""


def table(courses: Sequence[Floats], at: NDArray[np.int64]) -> list[str]:
    """The lines of the table, from the gaps of `CASES` after these numbers of rounds."""
    last = int(at[-1])
    rows = [ROWS.format(first=last // LAST, last=last)]
    for (name, curvatures, _, rate), values in zip(CASES, courses, strict=True):
        early = np.interp(last // LAST, at, values)
        exponent = slope(at, values)
        cells = (name, curvatures, rate, f"{early:.1e}", f"{values[-1]:.1e}", f"{exponent:.2f}")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def decades(axes: Any, across: tuple[int, int], up: tuple[int, int]) -> None:
    """Scale both axes by logarithms, and mark powers of 10 from the first exponent to the last."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for mark, limit, (first, last) in (
        (axes.set_xticks, axes.set_xlim, across),
        (axes.set_yticks, axes.set_ylim, up),
    ):
        powers = [10.0**exponent for exponent in range(first, last + 1)]
        mark(powers, [f"{power:,.7g}" for power in powers])
        mark([], minor=True)
        limit(powers[0], powers[-1])


def draw(folder: Path) -> list[str]:
    """The table, in lines of Markdown; draws the figure `flatland-rate.png` in the folder."""
    at = np.unique(np.geomspace(1, ROUNDS, 60).astype(np.int64))
    curved = tailored()
    flat = problem(np.zeros(CLIENTS))
    figure, (left, right) = style.panels(2)
    keys = []
    courses = []
    for index, (name, curvatures, first, rate) in enumerate(CASES):
        course = gaps(flat if curvatures == "0" else curved, first, rate, SEEDS, at)
        courses.append(course)
        colour = style.PALETTE[index]
        left.plot(at, course, color=colour)
        keys.append(charts.key(f"{name}, {curvatures}, {rate}", color=colour))
    left.plot(at, courses[0][-1] * at[-1] / at, color=style.SOFT, linestyle=":")
    squares, bound = least_gradients(curved, 1000)
    steps = np.arange(1, len(squares) + 1)
    right.plot(steps, squares, color=style.PALETTE[0])
    right.plot(steps, bound / steps, color=style.SOFT, linestyle=":")
    keys.append(charts.key("1/T", color=style.SOFT, linestyle=":"))
    decades(left, (0, 4), (-5, 0))
    decades(right, (0, 3), (-5, 1))
    charts.name(left, "rounds T", "ℓ − ℓ*")
    charts.name(right, "rounds T of one full step", "least ‖∇ℓ‖² so far")
    legends.legend(figure, keys)
    style.save(figure, folder / "flatland-rate")
    return table(courses, at)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.flatland_rate")
    parser.add_argument("--folder", type=Path, default=Path("docs/measured"))
    options = parser.parse_args(arguments)
    with style.applied():
        print("\n".join(draw(options.folder)))


if __name__ == "__main__":
    main()

"""The parts of the image methods by themselves, against mpmath, closed forms, a QP solver, and
least squares."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from curvfed.geometry import normal_coordinates, poincare
from curvfed.geometry.arrays import Floats
from curvfed.geometry.min_norm import duality_gap, min_norm_point
from curvfed.geometry.prototypes import uniform
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from studies.accept.images import CLIENTS, MILD
from studies.accept.lab import Lab, Outcome

Table = Callable[[Lab], Iterator[Outcome]]

CLOSED_FORMS = {
    "polygon (7, 2)": (7, 2, math.cos(2 * math.pi / 7)),
    "simplex (21, 20)": (21, 20, -1 / 20),
    "orthoplex (40, 20)": (40, 20, 0.0),
}
SEARCHED = ((100, 20, 0.156), (200, 20, 0.235))
PATIENCE = 3.0
"""Seconds of one core that a set of prototypes may take."""


def distance(lab: Lab) -> Iterator[Outcome]:
    """Distances from features to prototypes in float32."""
    points = poincare.log0(0.9 * uniform(10, 20, 0), -1.0).float()
    generator = torch.Generator().manual_seed(0)
    lengths = 10 * torch.rand(400, 1, generator=generator)
    rays = [normalize(torch.randn(400, 20, generator=generator)) * lengths]
    # towards them the most cancels
    rays += [length * normalize(points) for length in torch.linspace(0, 10, 11)]
    features = torch.cat(rays)
    error = (
        (normal_coordinates.cdist(features, points, -1.0).double() - _exact(features, points))
        .abs()
        .max()
        .item()
    )
    what = (
        f"distance of {len(features)} features, r <= 10, from 10 prototypes, s = .9, float32: error"
        " against mpmath"
    )
    yield Outcome(what, "<= 5e-6", f"{error:.1e}", error <= 5e-6)
    ends = torch.stack([torch.zeros(20), 80 * normalize(rays[0], dim=1)[0]]).requires_grad_()
    (gradient,) = torch.autograd.grad(normal_coordinates.cdist(ends, points[:1], -1.0).sum(), ends)
    near, far = gradient.norm(dim=1).tolist()
    yield Outcome(
        "its gradient at r = 0 and 80 (length 2 is right)",
        "finite",
        f"{near:.7g}, {far:.7g}",
        math.isfinite(near + far),
    )


def prototypes(lab: Lab) -> Iterator[Outcome]:
    """Spread of prototypes, and what it takes of one core, in a process where nothing is kept from
    before."""
    lab.wait()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        closed = [pool.submit(_spread, num, dim).result() for num, dim, _ in CLOSED_FORMS.values()]
        searched = [pool.submit(_spread, num, dim).result() for num, dim, _ in SEARCHED]
    error = max(
        abs(gap - form[2]) for (gap, _), form in zip(closed, CLOSED_FORMS.values(), strict=True)
    )
    slowest = max(seconds for _, seconds in closed)
    yield Outcome(
        f"prototypes, {', '.join(CLOSED_FORMS)}: largest cosine against the closed form",
        f"<= 1e-6, each < {PATIENCE:g} s",
        f"{error:.0e}, {slowest:.2f} s",
        error <= 1e-6 and slowest < PATIENCE,
    )
    for (num, dim, bar), (value, seconds) in zip(SEARCHED, searched, strict=True):
        yield Outcome(
            f"{num} prototypes in {dim} dimensions: largest cosine",
            f"<= {bar:g}, < {PATIENCE:g} s",
            f"{value:.4f}, {seconds:.2f} s",
            value <= bar and seconds < PATIENCE,
        )


def min_norm(lab: Lab) -> Iterator[Outcome]:
    """The point of least norm without a bound on the weights and within the default radius."""
    for num in (100, 1000):
        rng = np.random.default_rng(num)
        deviations = rng.standard_normal((num, 3 * num)) + rng.standard_normal(3 * num)
        products = deviations @ deviations.T
        gaps, errors = [], []
        for radius in (None, 0.2):
            weights = min_norm_point(products, radius=radius)
            gaps.append(
                duality_gap(products, weights, radius=radius) / float(weights @ products @ weights)
            )
            errors.append(float(np.abs(weights - _interior_point(products, radius)).max()))
        what = f"point of least norm of {num} deviations, unbounded and radius .2"
        yield Outcome(
            f"{what}: duality gap over the value", "<= 1e-8", f"{max(gaps):.0e}", max(gaps) <= 1e-8
        )
        yield Outcome(
            f"{what}: weights against Clarabel's",
            "<= 1e-6",
            f"{max(errors):.0e}",
            max(errors) <= 1e-6,
        )


def gram(lab: Lab) -> Iterator[Outcome]:
    """Inner products of deviations of the size of ResNet18; nothing else runs meanwhile."""
    from benchmarks.measure import Place, measure
    from benchmarks.rows import one

    lab.wait()
    measured = measure(one("Gram matrix", Place(lab.data)))
    ratio, extra = 1 / measured.ratio, measured.ours_bytes or 0
    what = "Gram matrix of 20 deviations of 11M float32"
    yield Outcome(
        f"{what}: rate against one matrix product", ">= 70%", f"{100 * ratio:.0f}%", ratio >= 0.7
    )
    yield Outcome(
        f"{what}: memory beyond the models", "<= 300 MB", f"{extra / 1e6:.0f} MB", extra <= 300e6
    )


def calibration(lab: Lab) -> Iterator[Outcome]:
    """The classifier from the clients' sums against least squares on all their features in one
    place."""
    from safetensors.numpy import load_file

    from curvfed.client_app.client import Client
    from curvfed.client_app.node import Node
    from curvfed.client_app.rounds import class_sums
    from curvfed.deployments.predict import TrainedRun
    from curvfed.server_app.directory.checkpoint import CALIBRATED
    from curvfed.strategies.methods.spherefed import Sums, solve
    from curvfed.strategies.wire.messages import CALIBRATE

    ImageDataset(ImageSpec("mnist", lab.data)).locate()
    run = TrainedRun.read(lab.run(MILD | {"method": "spherefed", "seed": 0}))
    vectors: dict[int, Floats] = {}
    features: list[Tensor] = []
    labels: list[Tensor] = []
    for number in run.clients:
        client = Client(run.config, run.path.name, Node(partition=number, num_partitions=CLIENTS))
        client.prepare(run.facts, 0)
        trained = run.shared.sent_to(number)
        client.receive({name: trained[name] for name in client.shared})
        vectors[number], _ = class_sums(client, CALIBRATE)
        head: Any = client.model.get_submodule("head")
        for batch, numbers in client.task.features(client.model):  # type: ignore[attr-defined]
            features.append(head.inputs(batch).double())
            labels.append(numbers)
    pooled, classes = torch.cat(features).numpy(), len(run.facts.class_names)
    sums = Sums.unpack(sum(vectors.values(), np.zeros(())), pooled.shape[1], classes)
    config: Any = run.config
    ours = solve(sums.gram, sums.targets, config.spherefed.ridge * len(pooled))
    theirs = np.linalg.lstsq(pooled, np.eye(classes)[torch.cat(labels).numpy()])[0].T
    kept = load_file(run.path / "model.safetensors")[f"{CALIBRATED}{'head.weight'}"]
    error, rounding = (
        float(np.abs(weights - theirs).max() / np.abs(theirs).max()) for weights in (ours, kept)
    )
    what = (
        f"classifier from the sums of {len(vectors)} clients against least squares on their"
        f" {len(pooled)} features"
    )
    yield Outcome(
        f"{what}, MNIST, alpha .5", "<= 1e-8 of the largest weight", f"{error:.0e}", error <= 1e-8
    )
    yield Outcome(
        "the same: the classifier that the run has kept, float32",
        "<= 1e-6",
        f"{rounding:.0e}",
        rounding <= 1e-6,
    )


TABLES: tuple[Table, ...] = (distance, prototypes, min_norm, gram, calibration)


def _exact(features: Tensor, points: Tensor) -> Tensor:
    """Distances of all exp0(feature) from all exp0(point), curvature -1, to 50 digits, then in
    float64."""
    import mpmath

    def distance(x: list[Any], y: list[Any]) -> float:
        apart = mpmath.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))
        defects = (1 - mpmath.fdot(x, x)) * (1 - mpmath.fdot(y, y))
        return float(mpmath.acosh(1 + 2 * apart / defects))

    def exp0(row: list[float]) -> list[Any]:
        vector = [mpmath.mpf(value) for value in row]
        length = mpmath.sqrt(mpmath.fdot(vector, vector))
        return [mpmath.tanh(length) / length * value for value in vector] if length else vector

    with mpmath.workdps(50):
        ends = [exp0(row) for row in points.tolist()]
        distances = [[distance(exp0(row), end) for end in ends] for row in features.tolist()]
    return torch.tensor(distances, dtype=torch.float64)


def _spread(num: int, dim: int) -> tuple[float, float]:
    """Largest cosine of so many prototypes, and the seconds that one core worked on them, imports
    apart."""
    import scipy.optimize  # noqa: F401

    torch.set_num_threads(1)
    started = time.process_time()
    points = uniform(num, dim, 0)
    seconds = time.process_time() - started
    return (points @ points.T - 2 * torch.eye(num)).max().item(), seconds


def _interior_point(products: Floats, radius: float | None) -> Floats:
    """Weights by Clarabel: minimise w'Gw, the sum 1, all within radius/K of 1/K and not
    negative.
    """
    import clarabel
    from scipy.sparse import csc_array, eye_array, vstack

    num = len(products)
    reach = 1.0 if radius is None else radius / num
    lower, upper = max(1 / num - reach, 0.0), min(1 / num + reach, 1.0)
    rows = vstack([np.ones((1, num)), -eye_array(num), eye_array(num)], format="csc")
    right = np.concatenate([[1.0], np.full(num, -lower), np.full(num, upper)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * num)]
    quadratic = csc_array(np.triu(products / products.max()))
    return np.array(
        clarabel.DefaultSolver(quadratic, np.zeros(num), rows, right, cones, settings).solve().x
    )

"""Classifiers against LinearSVC, a QP solver, mpmath, geoopt, scikit-learn, optimality."""

import math

import clarabel
import geoopt.manifolds.stereographic.math as geoopt_ball
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import block_array, csc_array, eye_array
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from tiers import only

from curvfed.geometry.linear_classifiers import Log0Logistic, best_c, stratified_folds
from curvfed.geometry.margin import (
    NotSeparableError,
    fit_platt,
    hard_margin,
    hinge_margin,
    log_platt,
    soft_margin,
)
from curvfed.geometry.svm import EuclideanSVM, PoincareHingeSVM, PoincareSVM

EPS = np.finfo(np.float64).eps
KINDS = [
    lambda C: PoincareSVM(-1.3, C),
    EuclideanSVM,
    lambda C: Log0Logistic(-1.3, C),
    lambda C: PoincareHingeSVM(-1.3, C),
]


def clusters(num, size, seed, spread=0.15, curvature=-1.3):
    """Points of `num` overlapping classes around a circle, and their labels."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(num) / num
    centres = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.repeat(np.arange(num), size)
    points = centres[labels] + spread * rng.standard_normal((num * size, 2))
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.maximum(1, norms / 0.95) / math.sqrt(-curvature), labels


def features(model, points, line):
    """log_p(x) by geoopt in float64."""
    k = torch.tensor(model.curvature, dtype=torch.float64)
    return geoopt_ball.logmap(
        torch.tensor(model.references_[line]), torch.tensor(points), k=k
    ).numpy()


# The squared hinge


@given(
    seed=st.integers(0, 10**6),
    power=st.floats(-4, 12),
    kind=st.sampled_from(["random", "line", "equal", "lengths"]),
)
@example(0, 12, "line")
@example(0, 12, "equal")
@example(12, 3, "lengths")  # the minimum lies just beyond where the Hessian jumps
def test_soft_margins_are_optimal(seed, power, kind):
    rng = np.random.default_rng(seed)
    products = rng.standard_normal((3, 2, 30)) + np.array([[0.7], [0.2]])
    if kind == "line":
        products = products[:, :1] * np.array([[1.0], [0.3]])
    elif kind == "equal":
        products = np.repeat(products[..., :1], 30, axis=2)
    elif kind == "lengths":
        products = products * 10 ** rng.uniform(-6, 3, (3, 1, 30))
    for normal, z in zip(soft_margin(products, 10.0**power), products, strict=True):
        slack = np.maximum(1 - normal @ z, 0)
        gradient = normal - 2 * 10.0**power * z @ slack
        lengths = np.linalg.norm(z, axis=0)
        stated = 2e-12 * 10.0**power * lengths.sum()
        rounding = (
            8 * EPS * (1 + 2 * 10.0**power * np.square(lengths).sum()) * np.linalg.norm(normal)
        )
        assert np.linalg.norm(gradient) <= stated + rounding


def test_rows_do_not_depend_on_each_other():
    products = np.random.default_rng(0).standard_normal((40, 2, 50)) + np.array([[0.4], [0]])
    products *= np.logspace(0, 3, 40)[:, None, None]
    products[::20] = 0  # end at once
    together = soft_margin(products, 10.0)
    alone = [soft_margin(products[i : i + 1], 10.0)[0] for i in range(40)]
    np.testing.assert_array_equal(together, alone)


def test_nothing_to_learn_from_gives_no_normal():
    np.testing.assert_array_equal(soft_margin(np.zeros((2, 2, 5)), 1.0), np.zeros((2, 2)))
    np.testing.assert_array_equal(soft_margin(np.ones((1, 2, 5)), 0.0), np.zeros((1, 2)))


# The plain hinge


def solve(quadratic, linear, matrix, right):
    """argmin ½x·Px + q·x subject to Ax ≤ b, or None."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(len(right))]
    problem = (csc_array(quadratic), linear, csc_array(matrix), right)
    solution = clarabel.DefaultSolver(*problem, cones, settings).solve()
    return np.array(solution.x) if str(solution.status) == "Solved" else None


def hinge_program(vectors, cost):
    """argmin ½‖w‖² + C Σ ξᵢ subject to w·zᵢ ≥ 1 − ξᵢ and ξᵢ ≥ 0: Eq. 7."""
    num, dim = vectors.shape
    slack = eye_array(num)
    return solve(
        block_array([[eye_array(dim), None], [None, csc_array((num, num))]]),
        np.concatenate([np.zeros(dim), np.full(num, cost)]),
        block_array([[csc_array(-vectors), -slack], [None, -slack]]),
        np.concatenate([-np.ones(num), np.zeros(num)]),
    )[:dim]


def hinge_sum(normal, vectors, cost):
    return normal @ normal / 2 + cost * np.maximum(1 - vectors @ normal, 0).sum()


@given(
    seed=st.integers(0, 10**6),
    power=st.floats(-4, 5),
    num=st.integers(1, 40),
    dim=st.sampled_from([2, 3]),
    shift=st.floats(0, 4),
    kind=st.sampled_from(["random", "grid", "equal", "lengths"]),
)
@example(0, 5, 20, 2, 4, "random")
@example(0, 5, 20, 2, 0, "grid")
@example(0, 3.0, 10, 2, 0.0, "grid")
def test_plain_hinges_equal_a_quadratic_program(seed, power, num, dim, shift, kind):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((num, dim)) + shift * np.eye(dim)[0]
    if kind == "grid":
        vectors = np.round(vectors)
    elif kind == "equal":
        vectors[:] = vectors[0]
    elif kind == "lengths":
        vectors *= 10 ** rng.uniform(-2, 1, (num, 1))
    cost = 10**power
    expected = hinge_program(vectors, cost)
    normal = hinge_margin(vectors.T[None], cost)[0]
    least = hinge_sum(expected, vectors, cost)
    assert hinge_sum(normal, vectors, cost) <= least * (1 + 1e-9) + num * cost * 1e-8 * math.log(2)
    # The program itself is that far from its solution, 1e-4 of its length at vectors of a grid.
    np.testing.assert_allclose(normal, expected, atol=5e-4 * np.linalg.norm(expected) + 1e-9)


def test_plain_and_squared_hinges_differ_and_a_row_is_not_touched_by_others():
    vectors = np.random.default_rng(0).standard_normal((5, 2, 30)) + np.array([[0.7], [0.2]])
    together = hinge_margin(vectors, 3.0)
    for normal, mine in zip(together, vectors, strict=True):
        np.testing.assert_allclose(normal, hinge_margin(mine[None], 3.0)[0], rtol=1e-6)
    apart = np.linalg.norm(together - soft_margin(vectors, 3.0), axis=1)
    assert (apart > 0.01 * np.linalg.norm(together, axis=1)).all()


@pytest.mark.parametrize("C", [0.1, 10, 1000])
def test_plain_hinges_in_the_disc_equal_a_quadratic_program(C):
    points, labels = clusters(4, 30, 2)
    model = PoincareHingeSVM(-1.3, C).fit(points, labels)
    for line in range(4):
        signed = np.where(labels == line, 1, -1)[:, None] * features(model, points, line)
        expected = hinge_program(signed, C)
        np.testing.assert_allclose(model.normals_[line], expected, rtol=1e-5, atol=1e-6)


# The hard margin


def quadratic_program(vectors):
    num, dim = vectors.shape
    return solve(eye_array(dim), np.zeros(dim), -vectors, -np.ones(num))


@given(
    seed=st.integers(0, 10**6),
    num=st.integers(1, 40),
    dim=st.sampled_from([2, 3]),
    shift=st.floats(0, 4),
)
def test_hard_margins_equal_a_quadratic_program(seed, num, dim, shift):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((num, dim)) + shift * np.eye(dim)[0]
    expected = quadratic_program(vectors)
    if expected is None or np.linalg.norm(expected) > 1e6:
        with pytest.raises(NotSeparableError):
            hard_margin(vectors)
    else:
        normal = hard_margin(vectors)
        np.testing.assert_allclose(
            normal, expected, rtol=1e-6, atol=1e-6 * np.linalg.norm(expected)
        )
        assert (vectors @ normal).min() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    "vectors",
    [
        [[0, 0]],
        [[1, 0], [-1, 0]],
        [[1, 0], [0, 0]],
        [[1, 0], [-1, 1], [-1, -1]],
        [[1, 1e-14], [-1, 0]],
    ],
)
def test_what_has_no_hard_margin(vectors):
    with pytest.raises(NotSeparableError):
        hard_margin(np.array(vectors, float))


# Platt's probabilities


@pytest.mark.parametrize("kind", ["overlap", "apart", "large", "small", "one positive"])
def test_platt_is_the_maximum_of_the_likelihood(kind):
    rng = np.random.default_rng(3)
    positive = rng.random((2, 40)) < (0 if kind == "one positive" else 0.3)
    positive[:, 0], positive[:, 1] = True, False
    noise = 0 if kind == "apart" else 1
    scores = np.where(positive, 1, -1) + noise * rng.standard_normal((2, 40))
    scores *= {"large": 1e5, "small": 1e-9}.get(kind, 1)
    fitted = fit_platt(scores, positive)
    for row in range(2):
        f, y = scores[row], positive[row]
        high, low = (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2)
        with mpmath.workdps(40):
            a, b = map(mpmath.mpf, fitted[row])
            residual = [
                (high if is_positive else low) - 1 / (1 + mpmath.exp(a * s + b))
                for s, is_positive in zip(f, y, strict=True)
            ]
            slopes = (
                mpmath.fsum(residual),
                mpmath.fsum(r * s for r, s in zip(residual, f, strict=True)),
            )
        assert abs(slopes[0]) <= 1e-10 * f.size
        assert abs(slopes[1]) <= 1e-10 * f.size * np.abs(f).max()
        assert a < 0


def test_platt_of_scores_that_say_nothing_is_the_share():
    positive = np.arange(20)[None] < 5
    a, b = fit_platt(np.zeros((1, 20)), positive)[0]
    assert a == 0
    targets = np.where(positive, 6 / 7, 1 / 17)
    assert 1 / (1 + math.exp(b)) == pytest.approx(targets.mean(), rel=1e-12)


def test_log_probabilities_do_not_overflow():
    logs = log_platt(np.array([-1e6, 0, 1e6]), np.array([-3.0, 0]))
    np.testing.assert_allclose(logs, [-3e6, -math.log(2), 0])


# In the disc


@pytest.mark.parametrize("curvature", [-1.0, -0.0015, -4.0])
@pytest.mark.parametrize("num", [2, 4])
def test_scores_are_the_papers_formula(num, curvature):
    points, labels = clusters(num, 12, 1, curvature=curvature)
    model = PoincareSVM(curvature, 1.0).fit(points, labels)
    edge = np.array([[0, 0], [0.999999, 0], [0, -1 + 1e-9], [1e-12, 0]]) / math.sqrt(-curvature)
    queries = np.concatenate([points[:8], edge, model.references_])
    scores = model.decision_function(queries).reshape(len(queries), -1)
    with mpmath.workdps(50):
        for row, x in zip(scores, queries, strict=True):
            for score, p, w in zip(row, model.references_, model.normals_, strict=True):
                vector = equation_1(p, x, -mpmath.mpf(curvature))
                expected = mpmath.fdot(zip(vector, map(mpmath.mpf, w), strict=True))
                size = mpmath.norm(vector) * float(np.linalg.norm(w))
                # 1 − k‖x‖² is that of the coordinates to eps·cosh²(r/2).
                kappa = 1 / (1 + curvature * float(x @ x)) + 1 / (1 + curvature * float(p @ p))
                assert abs(expected - score) <= 20 * EPS * kappa * size


def equation_1(p, x, k):
    p, x = ([mpmath.mpf(value) for value in vector] for vector in (p, x))
    p_p, x_x, inner = (mpmath.fdot(zip(a, b, strict=True)) for a, b in ((p, p), (x, x), (p, x)))
    divisor = 1 - 2 * k * inner + k**2 * p_p * x_x
    moved = [
        (-(1 - 2 * k * inner + k * x_x) * a + (1 - k * p_p) * b) / divisor
        for a, b in zip(p, x, strict=True)
    ]
    size = mpmath.norm(moved)
    if size == 0:
        return moved
    return [
        (1 - k * p_p) / mpmath.sqrt(k) * mpmath.atanh(mpmath.sqrt(k) * size) * a / size
        for a in moved
    ]


@pytest.mark.parametrize("C", [0.1, 10, 1000])
def test_normals_equal_linear_svc_on_logarithms(C):
    points, labels = clusters(4, 30, 2)
    model = PoincareSVM(-1.3, C).fit(points, labels)
    for line in range(4):
        svc = LinearSVC(
            C=C, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-12, max_iter=10_000
        )
        svc.fit(features(model, points, line), labels == line)
        np.testing.assert_allclose(model.normals_[line], svc.coef_[0], rtol=1e-6, atol=1e-6)


def closest_midpoints(first, second, curvature):
    """Of all pairs of extreme points: midpoints in the order of distance."""
    k = torch.tensor(curvature, dtype=torch.float64)
    start, end = (torch.tensor(side[extreme(side, curvature)]) for side in (first, second))
    apart = geoopt_ball.dist(start[:, None], end, k=k).numpy()
    i, j = np.unravel_index(np.argsort(apart, axis=None), apart.shape)
    return geoopt_ball.geodesic(torch.tensor(0.5), start[i], end[j], k=k).numpy()


def extreme(points, curvature):
    """Those that see all others within less than half a turn, by directions of geodesics."""
    k = torch.tensor(curvature, dtype=torch.float64)
    corners = []
    for i in range(len(points)):
        remaining = torch.tensor(np.delete(points, i, axis=0))
        x, y = geoopt_ball.logmap(torch.tensor(points[i]), remaining, k=k).numpy().T
        angles = np.sort(np.arctan2(y, x))
        if np.append(np.diff(angles), 2 * np.pi + angles[0] - angles[-1]).max() > np.pi:
            corners.append(i)
    return corners


@pytest.mark.parametrize("seed", range(4))
def test_the_reference_is_the_best_of_the_three_closest_midpoints(seed):
    points, labels = clusters(4, 15, seed, spread=0.25)
    model = PoincareSVM(-1.3, 1.0).fit(points, labels)
    for line in range(4):
        mine = labels == line
        tried = closest_midpoints(points[mine], points[~mine], -1.3)[:3]
        accuracies = []
        for reference in tried:
            alone = PoincareSVM(-1.3, 1.0, reference).fit(points, mine)
            accuracies.append((alone.predict(points) == mine).mean())
        np.testing.assert_allclose(
            model.references_[line], tried[int(np.argmax(accuracies))], rtol=1e-9, atol=1e-12
        )


def test_given_references_are_used():
    points, labels = clusters(3, 10, 0)
    shared = PoincareSVM(-1.3, 1, [0.1, 0.2]).fit(points, labels)
    np.testing.assert_array_equal(shared.references_, [[0.1, 0.2]] * 3)
    references = np.array([[0.1, 0.2], [0, 0], [-0.3, 0.1]])
    model = PoincareSVM(-1.3, 1, references).fit(points, labels)
    np.testing.assert_array_equal(model.references_, references)
    np.testing.assert_array_equal(model.normals_[0], shared.normals_[0])
    with pytest.raises(ValueError, match="3 reference points for 1 classifiers"):
        PoincareSVM(-1.3, 1, references).fit(points, labels == 0)


def test_hard_margin_in_the_disc_equals_a_quadratic_program():
    points, labels = clusters(2, 20, 0, spread=0.05)
    model = PoincareSVM(-1.3, math.inf).fit(points, labels)
    signed = np.where(labels == 1, 1, -1)[:, None] * features(model, points, 0)
    np.testing.assert_allclose(model.normals_[0], quadratic_program(signed), rtol=1e-7)


def test_a_hard_margin_that_does_not_exist():
    points, labels = clusters(2, 40, 0, spread=0.4)
    for model in (PoincareSVM(-1.3, math.inf), EuclideanSVM(math.inf)):
        with pytest.raises(NotSeparableError, match="C = inf, but a class cannot be separated"):
            model.fit(points, labels)


def test_points_of_two_classes_at_one_place():
    points, labels = np.full((6, 2), 0.25), np.arange(6) % 2
    model = PoincareSVM(-1, 1).fit(points, labels)
    np.testing.assert_allclose(model.references_, [[0.25, 0.25]])
    np.testing.assert_allclose(model.predict_proba(points), 0.5)


# In the plane


@pytest.mark.parametrize("num", [2, 4])
def test_euclidean_equals_linear_svc(num):
    points, labels = clusters(num, 30, 5)
    model = EuclideanSVM(3).fit(points, labels)
    svc = LinearSVC(C=3, loss="squared_hinge", dual=False, tol=1e-12, max_iter=10_000).fit(
        points, labels
    )
    np.testing.assert_allclose(model.normals_, svc.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercepts_, svc.intercept_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(points), svc.decision_function(points), atol=1e-6
    )
    if num == 2:
        np.testing.assert_array_equal(model.predict(points), svc.predict(points))


# Logistic regression


@pytest.mark.parametrize("C", [1e-2, 1, 1e4])
@pytest.mark.parametrize("num", [2, 4])
def test_logistic_equals_scikit_learn(num, C):
    points, labels = clusters(num, 30, 6, spread=0.3)
    model = Log0Logistic(-1.3, C).fit(points, labels)
    k = torch.tensor(-1.3, dtype=torch.float64)
    tangent = geoopt_ball.logmap0(torch.tensor(points), k=k).numpy()
    peer = LogisticRegression(C=C, solver="newton-cg", tol=1e-9, max_iter=1000).fit(tangent, labels)
    np.testing.assert_allclose(model.normals_, peer.coef_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        model.predict_proba(points), peer.predict_proba(tangent), rtol=1e-5, atol=1e-8
    )
    np.testing.assert_array_equal(model.predict(points), peer.predict(tangent))


# What all have in common


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("num", [2, 5])
def test_probabilities_sum_to_one_and_decide(make, num):
    points, labels = clusters(num, 20, 7)
    model = make(1.0).fit(points, np.array(list("edcba"))[labels])
    shares = model.predict_proba(points)
    assert shares.shape == (num * 20, num)
    assert (shares > 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_array_equal(model.classes_, sorted("edcba"[:num]))
    if num > 2:
        np.testing.assert_array_equal(model.predict(points), model.classes_[shares.argmax(axis=1)])
        assert model.decision_function(points).shape == (num * 20, num)
    else:
        np.testing.assert_array_equal(
            model.predict(points) == "e", model.decision_function(points) > 0
        )
    assert (model.predict(points) == np.array(list("edcba"))[labels]).mean() > 0.9


def test_one_against_the_rest_is_normalised_platt():
    points, labels = clusters(4, 20, 8)
    model = PoincareSVM(-1.3, 1).fit(points, labels)
    scores = model.decision_function(points)
    probabilities = np.empty_like(scores)
    for line in range(4):
        alone = PoincareSVM(-1.3, 1).fit(points, labels == line)
        np.testing.assert_allclose(
            alone.decision_function(points), scores[:, line], rtol=1e-9, atol=1e-12
        )
        a, b = alone.platt_[0]
        probabilities[:, line] = alone.predict_proba(points)[:, 1]
        np.testing.assert_allclose(
            probabilities[:, line], 1 / (1 + np.exp(a * scores[:, line] + b)), rtol=1e-12
        )
    np.testing.assert_allclose(
        model.predict_proba(points),
        probabilities / probabilities.sum(axis=1, keepdims=True),
        rtol=1e-7,
    )


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        (np.zeros((4, 3)), [0, 1, 0, 1], r"points of shape \(4, 3\)"),
        (np.zeros(4), [0, 1, 0, 1], r"points of shape \(4,\)"),
        ([[0, 0], [np.nan, 0]], [0, 1], "not finite"),
        ([[0, 0], [np.inf, 0]], [0, 1], "not finite"),
        (np.zeros((4, 2)), [0, 1], r"labels of shape \(2,\) for 4 points"),
        (np.zeros((4, 2)), [1, 1, 1, 1], "points of 1 classes; a classifier needs at least two"),
        (np.zeros((0, 2)), [], "points of 0 classes"),
    ],
)
def test_what_is_refused(make, points, labels, message):
    with pytest.raises(ValueError, match=message):
        make(1.0).fit(points, labels)


@pytest.mark.parametrize("make", [KINDS[0], KINDS[2]])
def test_points_outside_the_disc(make):
    points = np.array([[0.1, 0.2], [0.9, 0]])
    with pytest.raises(ValueError, match=r"not inside the disc of curvature -1\.3"):
        make(1.0).fit(points, [0, 1])
    model = make(1.0).fit(points / 2, [0, 1])
    for ask in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match="not inside the disc"):
            ask(points)
    EuclideanSVM(1.0).fit(points * 10, [0, 1])


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("C", [0, -1, math.nan, 1e13])
def test_costs_that_are_refused(make, C):
    with pytest.raises(ValueError, match="it must be > 0 and at most 1e\\+12, or inf"):
        make(C)


# Cross-validation


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("num", [2, 4])
def test_every_cost_of_a_grid_trains_as_it_does_alone(make, num):
    points, labels = clusters(num, 13, 10, spread=0.3)
    grid = [1000, 0.01, 1]
    for C, model in zip(grid, make(5.0).fit_each(points, labels, grid), strict=True):
        assert C == model.C
        np.testing.assert_array_equal(
            model.predict_proba(points), make(C).fit(points, labels).predict_proba(points)
        )


@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    folds=st.integers(2, 7),
    seed=st.integers(0, 99),
)
def test_folds_are_stratified(counts, folds, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    out = ~stratified_folds(labels, folds, seed)
    times = out.sum(axis=0)
    for label, count in enumerate(counts):
        mine = labels == label
        assert (times[mine] == (count > 1)).all()
        assert np.ptp(out[:, mine].sum(axis=1)) <= 1
        assert (~out[:, mine]).any(axis=1).all()
    assert np.ptp(out.sum(axis=1)) <= 1
    np.testing.assert_array_equal(out, ~stratified_folds(labels, folds, seed))


@pytest.mark.parametrize("make", only(KINDS, lambda make: make is not KINDS[3]))
def test_best_c_has_the_highest_accuracy_and_is_the_middle_of_equals(make):
    points, labels = clusters(3, 12, 12, spread=0.35)
    labels[-9:] = 0  # leaves a class with fewer members than folds
    grid = [1e3, 0.01, 0.1, 1, 10, 100]
    folds = stratified_folds(labels, 5, 3)
    right = {
        C: sum(
            (make(C).fit(points[k], labels[k]).predict(points[~k]) == labels[~k]).sum()
            for k in folds
        )
        for C in grid
    }
    best = sorted(C for C in grid if right[C] == max(right.values()))
    assert best_c(make, points, labels, grid, 5, 3) == best[(len(best) - 1) // 2]
    assert len(set(right.values())) > 1


@pytest.mark.parametrize("make", KINDS)
def test_best_c_where_nothing_can_be_held_out(make):
    points, labels = clusters(3, 1, 0)
    assert best_c(make, points, labels, [1, 2, 3]) == 2
    assert best_c(make, points, labels, [4, 1, 2, 3]) == 2

"""The minimum-norm point against an interior-point solver, brute force, closed forms, KKT."""

import clarabel
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csc_array, eye_array, vstack
from tiers import only

from curvfed.geometry.min_norm import frank_wolfe_point, min_norm_point

EPS = np.finfo(np.float64).eps


def vectors(kind: str, num: int, rng: np.random.Generator) -> np.ndarray:
    """Rows whose Gram matrix is well-conditioned, so that solvers agree on the weights."""
    drift = rng.standard_normal(3 * num)
    normal = rng.standard_normal((num, 3 * num))
    return {
        "apart": normal,
        "drift": normal + drift,
        "lengths": (normal + drift) * rng.uniform(0.1, 10, (num, 1)),
    }[kind]


def bounds(
    num: int, prior: np.ndarray | None, radius: float | None
) -> tuple[np.ndarray, np.ndarray]:
    prior = np.full(num, 1 / num) if prior is None else prior
    reach = 1.0 if radius is None else radius / num
    return np.maximum(prior - reach, 0), np.minimum(prior + reach, 1)


def duality_gap(
    gram: np.ndarray, weights: np.ndarray, prior: np.ndarray | None, radius: float | None
) -> float:
    """Upper bound of the difference between wᵀGw and its minimum: 2(wᵀGw − min vᵀGw) over all
    admissible v, of which the least fills the entries in the order of their gradients."""
    corner, upper = bounds(len(gram), prior, radius)
    gradient = gram @ weights
    left = 1 - corner.sum()
    for entry in np.argsort(gradient):
        step = min(left, upper[entry] - corner[entry])
        corner[entry] += step
        left -= step
    return float(2 * (weights - corner) @ gradient)


def interior_point(gram: np.ndarray, prior: np.ndarray | None, radius: float | None) -> np.ndarray:
    num = len(gram)
    lower, upper = bounds(num, prior, radius)
    rows = vstack([np.ones((1, num)), -eye_array(num), eye_array(num)], format="csc")
    right = np.concatenate([[1.0], -lower, upper])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * num)]
    quadratic = csc_array(np.triu(gram / gram.max()))
    return np.array(
        clarabel.DefaultSolver(quadratic, np.zeros(num), rows, right, cones, settings).solve().x
    )


def assert_admissible(weights: np.ndarray, prior: np.ndarray | None, radius: float | None) -> None:
    lower, upper = bounds(len(weights), prior, radius)
    assert weights.dtype == np.float64
    assert abs(weights.sum() - 1) <= 4 * EPS * len(weights)
    assert (weights >= np.maximum(lower - 2 * EPS, 0)).all()
    assert (weights <= upper + 2 * EPS).all()


@pytest.mark.parametrize("radius", [None, 0.2, 1, 3])
@pytest.mark.parametrize("kind", ["apart", "drift", "lengths"])
@pytest.mark.parametrize("num", [2, 5, 20, 100])
def test_equals_an_interior_point_solver(num, kind, radius):
    rng = np.random.default_rng(num)
    rows = vectors(kind, num, rng)
    gram = rows @ rows.T
    for prior in (None, rng.dirichlet(np.ones(num))):
        weights = min_norm_point(gram, prior, radius)
        assert_admissible(weights, prior, radius)
        np.testing.assert_allclose(weights, interior_point(gram, prior, radius), atol=1e-6, rtol=0)


@st.composite
def problems(draw, max_num=8):
    """Small whole numbers: zero, equal, opposite, dependent vectors, hulls around 0 come up."""
    num, dim = draw(st.integers(1, max_num)), draw(st.integers(1, 5))
    rows = np.array(
        draw(
            st.lists(
                st.lists(st.integers(-3, 3), min_size=dim, max_size=dim), min_size=num, max_size=num
            )
        )
    )
    shares = np.array(draw(st.lists(st.integers(0, 5), min_size=num, max_size=num)), dtype=float)
    assume(shares.sum() > 0)
    radius = draw(st.sampled_from([None, 0, 0.1, 0.5, 1, 1.5, 4, 100]))
    return (rows @ rows.T).astype(float), shares / shares.sum(), radius


@given(problem=problems())
@example(problem=(np.array([[20.0, 20, 1], [20, 20, 1], [1, 1, 1]]), np.array([0.5, 0.5, 0]), None))
def test_no_admissible_change_lowers_the_value(problem):
    """Karush, Kuhn, Tucker: the rate gₗ − gₖ of moving weight must not be negative."""
    gram, prior, radius = problem
    weights = min_norm_point(gram, prior, radius)
    assert_admissible(weights, prior, radius)
    lower, upper = bounds(len(gram), prior, radius)
    gradient, size = gram @ weights, weights @ np.sqrt(gram.diagonal())
    if weights @ gradient > 4 * EPS * size**2:  # else the value is 0 to working precision
        # A weight this close to its bound moves the value by its square, less than rounding.
        rounding = 1e-7
        down, up = gradient[weights > lower + rounding], gradient[weights < upper - rounding]
        if down.size and up.size:
            assert down.max() - up.min() <= 1e-11 * gram.max()


@pytest.mark.parametrize("radius", only([None, 0.1, 0.5, 1, 3, 10], {None, 0.5, 10}.__contains__))
@pytest.mark.parametrize("num", [4, 8, 12, 40])
@pytest.mark.parametrize("kind", ["lengths", "square", "drift"])
def test_ill_conditioned_gram_matrices(kind, num, radius):
    """Lengths that differ by up to 1e8: the gap is a few roundings of the gradient."""
    for seed in range(8):
        rng = np.random.default_rng([num, seed])
        rows = rng.standard_normal((num, num if kind == "square" else 3 * num))
        rows += {"lengths": 0, "square": 0.1, "drift": 2 * rng.standard_normal(rows.shape[1])}[kind]
        if kind == "lengths":
            rows *= 10 ** rng.uniform(-4, 4, (num, 1))
        gram, prior = rows @ rows.T, rng.dirichlet(np.full(num, [0.05, 1, 10][seed % 3]))
        weights = min_norm_point(gram, prior, radius)
        assert_admissible(weights, prior, radius)
        lengths = np.sqrt(gram.diagonal())
        rounding = 32 * EPS * (weights @ lengths) * lengths.max()
        assert duality_gap(gram, weights, prior, radius) <= max(
            1e-11 * (weights @ gram @ weights), rounding
        )


@pytest.mark.parametrize("radius", [None, 0.3, 2])
def test_scale_and_order_do_not_matter(radius):
    """Not even where the solution is not unique: of dependent and of equal vectors."""
    rng = np.random.default_rng(5)
    for rows in (
        rng.standard_normal((30, 90)),
        rng.standard_normal((30, 6)),
        np.repeat(rng.standard_normal((6, 9)), 5, 0),
    ):
        gram, prior = rows @ rows.T, rng.dirichlet(np.ones(30))
        weights = min_norm_point(gram, prior, radius)
        for scale in (1e-20, 1e20, 1e-200, 1e200):
            np.testing.assert_allclose(
                min_norm_point(gram * scale, prior, radius), weights, atol=1e-6, rtol=0
            )
        order = rng.permutation(30)
        shuffled = min_norm_point(gram[np.ix_(order, order)], prior[order], radius)
        np.testing.assert_allclose(shuffled, weights[order], atol=1e-6, rtol=0)


@pytest.mark.parametrize("num", [40, 200])
def test_a_gram_matrix_rounded_to_float32(num):
    """More vectors than dimensions: half of the eigenvalues are negative, the value is 0."""
    rows = np.random.default_rng(2).standard_normal((num, 10)).astype(np.float32)
    gram = (rows @ rows.T).astype(np.float64)
    weights = min_norm_point(gram)
    assert_admissible(weights, None, None)
    assert np.linalg.norm(weights @ rows.astype(np.float64)) < 1e-2
    near = min_norm_point(gram, radius=0.1)
    assert_admissible(near, None, 0.1)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    assert near @ exact @ near <= (1 + 1e-4) * (
        min_norm_point(exact, radius=0.1) @ exact @ min_norm_point(exact, radius=0.1)
    )


def test_zero_vectors_take_all_the_weight_and_share_it_evenly():
    rows = np.eye(6)
    rows[[1, 4]] = 0
    np.testing.assert_allclose(min_norm_point(rows @ rows.T), [0, 0.5, 0, 0, 0.5, 0], atol=1e-8)
    np.testing.assert_allclose(
        min_norm_point(rows @ rows.T, radius=0.3),
        np.full(6, 1 / 6) + 0.05 * np.array([-0.5, 1, -0.5, -0.5, 1, -0.5]),
    )


@pytest.mark.parametrize("radius", [None, 0, 0.4, 100])
def test_where_nothing_is_to_be_gained_the_prior_stays(radius):
    prior = np.array([0.5, 0.2, 0.3, 0])
    for gram in (np.zeros((4, 4)), np.ones((4, 4))):
        np.testing.assert_array_equal(min_norm_point(gram, prior, radius), prior)
    np.testing.assert_array_equal(min_norm_point(np.zeros((4, 4))), [0.25] * 4)


def test_radius_zero_is_the_prior_and_a_large_one_no_bound():
    rows = np.random.default_rng(4).standard_normal((12, 40)) + 0.5
    gram, prior = rows @ rows.T, np.random.default_rng(5).dirichlet(np.ones(12))
    np.testing.assert_allclose(min_norm_point(gram, prior, 0), prior, rtol=4 * EPS)
    for large in (12, np.inf):
        np.testing.assert_array_equal(
            min_norm_point(gram, prior, large), min_norm_point(gram, prior)
        )


@given(problem=problems())
def test_steps_of_frank_wolfe_come_near_the_exact_value(problem):
    """From above, and nearer the more steps there are."""
    gram, prior, radius = problem
    exact = min_norm_point(gram, prior, radius)
    lower, upper = bounds(len(gram), prior, radius)
    values = []
    for steps in (0, 10, 1000):
        weights = frank_wolfe_point(gram, prior, radius, steps)
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert (weights >= lower - 1e-12).all()
        assert (weights <= upper + 1e-12).all()
        values.append(float(weights @ gram @ weights))
    scale = float(np.diag(gram).max()) + 1e-300
    assert values[0] >= values[1] - 1e-12 * scale
    assert values[1] >= values[2] - 1e-12 * scale
    assert -1e-9 * scale <= values[2] - exact @ gram @ exact <= 0.02 * scale


def test_a_step_of_frank_wolfe_is_that_of_equation_11():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4, 6))
    weights = np.array([0.1, 0.4, 0.3, 0.2])
    virtual = weights @ rows
    toughest = int(np.argmin(rows @ virtual))
    gap = rows[toughest] - virtual
    share = float(np.clip(-gap @ virtual / (gap @ gap), 0, 1))
    expected = (1 - share) * weights + share * np.eye(4)[toughest]
    weights_after = frank_wolfe_point(rows @ rows.T, weights, steps=1)
    np.testing.assert_allclose(weights_after, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("toughest", "virtual", "share"),
    [
        ((-1.0, 1.0), (1.0, 0.5), 7 / 17),  # case 1, Eqs. 14 to 16: the foot of the perpendicular
        ((2.5, 1.0), (1.0, 0.5), 0.0),  # case 2, Eqs. 17 and 18: the virtual client alone
        ((0.5, 0.0), (2.0, 0.0), 1.0),  # case 3, Eqs. 19 and 20: the toughest client alone
    ],
)
def test_each_case_of_a_step_is_the_least_norm_between_two(toughest, virtual, share):
    """HyperFed, Appendix C.1."""
    rows = np.array([toughest, virtual])
    weights = frank_wolfe_point(rows @ rows.T, np.array([0.0, 1.0]), steps=1)
    np.testing.assert_allclose(weights, [share, 1 - share], atol=1e-12)
    ways = np.linspace(0, 1, 1001)
    lengths = np.linalg.norm(np.outer(ways, toughest) + np.outer(1 - ways, virtual), axis=1)
    assert ways[lengths.argmin()] == pytest.approx(share, abs=1e-3)


@given(problem=problems(), seed=st.integers(0, 100))
def test_the_gap_of_these_tests_bounds_what_is_left_to_gain(problem, seed):
    """The gap by filling entries equals that of a linear program, at any admissible weights."""
    gram, prior, radius = problem
    lower, upper = bounds(len(gram), prior, radius)
    admissible = {
        "A_eq": np.ones((1, len(gram))),
        "b_eq": [1],
        "bounds": np.stack([lower, upper], axis=1),
    }
    rng = np.random.default_rng(seed)
    corner = linprog(rng.standard_normal(len(gram)), **admissible).x
    other = linprog(rng.standard_normal(len(gram)), **admissible).x
    weights = 0.3 * corner + 0.7 * other
    gap = duality_gap(gram, weights, prior, radius)
    gradient = gram @ weights
    least = linprog(gradient, **admissible).fun
    assert gap == pytest.approx(2 * (weights @ gradient - least), abs=1e-8)
    best = min_norm_point(gram, prior, radius)
    gained = weights @ gram @ weights - best @ gram @ best
    assert gap >= gained - 1e-9 * max(gram.max(), 1)


@pytest.mark.parametrize(
    ("gram", "prior", "radius", "message"),
    [
        (np.zeros((2, 3)), None, None, r"shape \(2, 3\); it must be \(K, K\)"),
        (np.zeros((0, 0)), None, None, r"shape \(0, 0\)"),
        (np.zeros(3), None, None, r"shape \(3,\)"),
        ([[1, np.nan], [np.nan, 1]], None, None, "not finite"),
        ([[np.inf, 0], [0, 1]], None, None, "not finite"),
        ([[1, 0.5], [0.4, 1]], None, None, "not symmetric"),
        ([[1, 2], [2, 1]], None, None, "no Gram matrix"),
        ([[-1, 0], [0, 1]], None, None, "no Gram matrix"),
        ([[0, 1], [1, 1]], None, None, "no Gram matrix"),
        (np.eye(2), [1, 0, 0], None, r"prior of shape \(3,\) for 2 vectors"),
        (np.eye(2), [0.7, 0.7], None, "not on the simplex"),
        (np.eye(2), [1.5, -0.5], None, "not on the simplex"),
        (np.eye(2), [np.nan, 1], None, "not on the simplex"),
        (np.eye(2), None, -0.1, "radius -0.1; it must be ≥ 0"),
        (np.eye(2), None, np.nan, "radius nan; it must be ≥ 0"),
    ],
)
def test_what_is_refused(gram, prior, radius, message):
    with pytest.raises(ValueError, match=message):
        min_norm_point(gram, prior, radius)

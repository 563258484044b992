"""Grouping of hulls: against brute force, true classes and what the geometry demands."""

import math
from collections.abc import Iterator, Sequence
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy.optimize import linear_sum_assignment
from scipy.spatial import ConvexHull
from tiers import examples

from curvfed.strategies.hull.grouping import METHODS, average_distances, group_hulls

Client = list[np.ndarray]


def group(
    clients: Sequence[Client],
    num_groups: int,
    curvature: float,
    method: str = "assignment",
    seed: int = 0,
) -> list:
    """The groups of each client's hulls."""
    sizes = [len(client) for client in clients]
    owners = np.repeat(np.arange(len(clients)), sizes)
    groups = iter(group_hulls(flat(clients), owners, num_groups, curvature, method, seed).tolist())
    return [[next(groups) for _ in range(size)] for size in sizes]


def distance(x: np.ndarray, y: np.ndarray, curvature: float = -1.0) -> float:
    """By Eq. 1's acosh, in 60 digits."""
    with mp.workdps(60):
        c = -mp.mpf(curvature)
        (a, b), (p, q) = map(mp.mpf, map(float, x)), map(mp.mpf, map(float, y))
        gaps = (1 - c * (a * a + b * b)) * (1 - c * (p * p + q * q))
        return float(mp.acosh(1 + 2 * c * ((a - p) ** 2 + (b - q) ** 2) / gaps) / mp.sqrt(c))


def averages(hulls: Sequence[np.ndarray]) -> np.ndarray:
    """Average distances between hulls, the plain way."""
    table = np.zeros((len(hulls), len(hulls)))
    for (u, first), (v, second) in product(enumerate(hulls), repeat=2):
        apart = np.square(first[:, None] - second).sum(axis=2)
        gaps = np.outer(1 - np.square(first).sum(axis=1), 1 - np.square(second).sum(axis=1))
        table[u, v] = np.arccosh(1 + 2 * apart / gaps).mean()
    return table


def cost(distances: np.ndarray, groups: Sequence[int]) -> float:
    """Σ over hulls of the average distance to the hulls of their group."""
    labels = np.asarray(groups)
    return sum(float(distances[u, labels == labels[u]].mean()) for u in range(len(labels)))


def flat(nested: Sequence[Sequence]) -> list:
    return [item for group in nested for item in group]


def partition(groups: Sequence[int], names: Sequence[object] | None = None) -> set[frozenset]:
    names = list(range(len(groups))) if names is None else names
    return {
        frozenset(name for name, label in zip(names, groups) if label == number)
        for number in groups
    }


def admissible(sizes: Sequence[int], num_groups: int) -> Iterator[list[int]]:
    """Every way to put the hulls of each client in different groups, so that no group is empty."""
    for ways in product(*(permutations(range(num_groups), size) for size in sizes)):
        groups = flat(ways)
        if len(set(groups)) == num_groups:
            yield groups


def right(groups: Sequence[int], classes: Sequence[int]) -> float:
    """Share of the hulls whose group is that of their class, by the best names for the groups."""
    table = np.zeros((max(groups) + 1, max(classes) + 1))
    np.add.at(table, (groups, classes), 1)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(groups))


def mobius(points: np.ndarray, shift: complex, turn: float, mirrored: bool = False) -> np.ndarray:
    """An isometry of the unit disc."""
    z = points[:, 0] + 1j * points[:, 1]
    z = np.conj(z) if mirrored else z
    w = np.exp(1j * turn) * (z + shift) / (1 + np.conj(shift) * z)
    return np.column_stack([w.real, w.imag])


def cloud(
    rng: np.random.Generator, centre: complex, size: int = 5, spread: float = 0.2
) -> np.ndarray:
    """Points within a radius of a centre."""
    z = spread * np.sqrt(rng.random(size)) * np.exp(2j * np.pi * rng.random(size))
    return mobius(np.column_stack([z.real, z.imag]), centre, 0.0)


def centres(count: int, radius: float = 0.7) -> np.ndarray:
    return radius * np.exp(2j * np.pi * np.arange(count) / count)


def separated(
    rng: np.random.Generator, clients: int, classes: int, lacking: float = 0.0
) -> tuple[list[Client], list[int]]:
    """Hulls around the centres of classes, in any order; one is lacking with a chance."""
    hulls, truth = [], []
    for _ in range(clients):
        present = [label for label in rng.permutation(classes) if rng.random() >= lacking]
        hulls.append([cloud(rng, centres(classes)[label], rng.integers(1, 9)) for label in present])
        truth += present
    return hulls, truth


def uniform(seed: int, lacking: int, one_sided: bool = False) -> tuple[list[Client], list[int]]:
    """Hulls of ten clients of uniform points beside a geodesic; some lack a class."""
    rng, radius = np.random.default_rng(seed), 0.95
    top = np.cosh(2 * np.arctanh(radius))
    lengths = np.tanh(np.arccosh(1 + rng.random(2000) * (top - 1)) / 2)
    z = lengths * np.exp(2j * np.pi * rng.random(2000))
    points = np.column_stack([z.real, z.imag])
    reference = 0.3 * radius * np.exp(2j * np.pi * rng.random())
    normal = np.exp(2j * np.pi * rng.random())
    images = mobius(points, -reference, 0.0)
    side = (images @ [normal.real, normal.imag] > 0).astype(int)
    holder = rng.integers(0, 10, 2000)
    lack = dict(
        zip(
            rng.permutation(10)[:lacking].tolist(),
            [int(one_sided) or i % 2 for i in range(lacking)],
        )
    )
    clients, truth = [], []
    for client in range(10):
        present = [label for label in rng.permutation(2) if lack.get(client) != label]
        clients.append([extreme(points[(holder == client) & (side == label)]) for label in present])
        truth += present
    return clients, truth


def extreme(points: np.ndarray) -> np.ndarray:
    return points[
        ConvexHull(2 * points / (1 + np.square(points).sum(axis=1, keepdims=True))).vertices
    ]


def test_average_distances_are_those_of_many_digits() -> None:
    rng = np.random.default_rng(0)
    rim = 0.999999 * np.array([[1.0, 0.0], [0.0, 1.0]])
    near = np.array([[0.3, 0.4], [0.3 + 1e-12, 0.4]])
    hulls = [np.zeros((1, 2)), rim, near, near[:1], cloud(rng, 0.5 + 0.2j, 7), cloud(rng, -0.9j, 3)]
    for curvature in (-1.0, -0.0015, -4.0):
        scaled = [hull / math.sqrt(-curvature) for hull in hulls]
        table = average_distances(scaled, curvature)
        for u, v in product(range(len(hulls)), repeat=2):
            plain = np.mean([distance(x, y, curvature) for x in scaled[u] for y in scaled[v]])
            assert table[u, v] == pytest.approx(plain, rel=1e-10, abs=0)
        np.testing.assert_array_equal(table, table.T)


def test_every_way_to_assign_few_hulls() -> None:
    """Of random hulls, with nothing to find, the cheapest groups of all."""
    tried = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        num_groups = int(rng.integers(1, 4))
        sizes = rng.integers(0, num_groups + 1, rng.integers(2, 5)).tolist()
        if sum(sizes) < num_groups:
            continue
        places = [0.9 * rng.uniform(-0.7, 0.7, (size, 2)) @ [1, 1j] for size in sizes]
        clients = [
            [cloud(rng, z, rng.integers(1, 4), 0.5) for z in positions] for positions in places
        ]
        groups, distances = flat(group(clients, num_groups, -1.0)), averages(flat(clients))
        costs = {tuple(way): cost(distances, way) for way in admissible(sizes, num_groups)}
        assert costs[tuple(groups)] <= min(costs.values()) + 1e-9
        tried += len(costs) > 1
    assert tried > 80


@pytest.mark.parametrize(
    ("method", "classes"),
    [(method, classes) for method in METHODS for classes in ((2,) if "-" in method else (2, 3, 8))],
)
def test_separated_classes(method: str, classes: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng([classes, seed])
        for clients in (3, 6):
            hulls, truth = separated(rng, clients, classes)
            groups = group(hulls, classes, -1.0, method, seed)
            assert right(flat(groups), truth) == 1
            assert all(len(set(labels)) == classes for labels in groups)


def test_separated_classes_that_clients_lack() -> None:
    """Up to half of all hulls are lacking, so that often no client has every class."""
    incomplete = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        hulls, truth = separated(rng, 6, 8, lacking=[0.1, 0.3, 0.5][seed % 3])
        if len(set(truth)) < 8:
            continue
        incomplete += max(map(len, hulls)) < 8
        assert right(flat(group(hulls, 8, -1.0)), truth) == 1
    assert incomplete > 8


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[list[Client], int]:
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    num_groups = draw(st.integers(1, 4))
    sizes = draw(
        st.lists(st.integers(0, num_groups), min_size=1, max_size=5).filter(
            lambda s: sum(s) >= num_groups
        )
    )
    pick = centres(num_groups, 0.5)[rng.integers(0, num_groups, sum(sizes))]
    hulls = iter([cloud(rng, z, rng.integers(1, 5), 0.5) for z in pick])
    return [[next(hulls) for _ in range(size)] for size in sizes], num_groups


@given(cohorts(), st.integers(0, 1000))
@examples(60)
def test_an_isometry_changes_nothing(cohort: tuple[list[Client], int], seed: int) -> None:
    clients, num_groups = cohort
    rng = np.random.default_rng(seed)
    shift, turn = 0.6 * np.sqrt(rng.random()) * np.exp(2j * np.pi * rng.random()), 7 * rng.random()
    moved = [[mobius(hull, shift, turn, bool(seed % 2)) for hull in client] for client in clients]
    assert group(moved, num_groups, -1.0) == group(clients, num_groups, -1.0)
    # A disc of another size with distances in proportion.
    larger = [[30 * hull for hull in client] for client in clients]
    assert group(larger, num_groups, -1 / 900) == group(clients, num_groups, -1.0)


@given(cohorts(), st.integers(0, 1000))
@examples(60)
def test_order_does_not_matter(cohort: tuple[list[Client], int], seed: int) -> None:
    """Nor that of clients, hulls and points: hulls share a group or not."""
    clients, num_groups = cohort
    rng = np.random.default_rng(seed)
    names = [[(client, hull) for hull in range(len(hulls))] for client, hulls in enumerate(clients)]
    shuffled = [
        [names[client][hull] for hull in rng.permutation(len(clients[client]))]
        for client in rng.permutation(len(clients))
    ]
    moved = [
        [rng.permutation(clients[client][hull]) for client, hull in pairs] for pairs in shuffled
    ]
    before, after = flat(group(clients, num_groups, -1.0)), flat(group(moved, num_groups, -1.0))
    assert partition(before, flat(names)) == partition(after, flat(shuffled))


@given(cohorts())
@examples(60)
def test_groups_are_whole_and_numbered_by_first_appearance(
    cohort: tuple[list[Client], int],
) -> None:
    clients, num_groups = cohort
    groups = group(clients, num_groups, -1.0)
    assert [len(labels) for labels in groups] == [len(client) for client in clients]
    assert all(len(set(labels)) == len(labels) for labels in groups)
    assert list(dict.fromkeys(flat(groups))) == list(range(num_groups))
    assert groups == group(clients, num_groups, -1.0, seed=5)


@pytest.mark.parametrize("method", METHODS)
def test_single_points_and_identical_hulls(method: str) -> None:
    points = [np.array([[x, 0.0]]) for x in (0.5, 0.5, 0.5, -0.5, -0.5, -0.5)]
    clients = [[points[0], points[3]], [points[4], points[1]], [points[2], points[5]]]
    assert group(clients, 2, -1.0, method) == [[0, 1], [1, 0], [0, 1]]
    same = group([[points[0], points[0]]] * 3, 2, -1.0, method)
    assert same == group([[points[0], points[0]]] * 3, 2, -1.0, method)
    assert set(flat(same)) <= {0, 1}
    if method == "assignment":
        assert all(set(labels) == {0, 1} for labels in same)


def test_as_many_groups_as_hulls_and_one_group() -> None:
    rng = np.random.default_rng(2)
    clients = [[cloud(rng, 0.1)], [], [cloud(rng, 0.2)], [cloud(rng, 0.3)]]
    for method in ("assignment", "spectral"):
        assert group(clients, 3, -1.0, method) == [[0], [], [1], [2]]
        assert group(clients, 1, -1.0, method) == [[0], [], [0], [0]]
    assert group(clients[:3], 2, -1.0, "kernighan-lin") == [[0], [], [1]]


ONE = np.array([[0.1, 0.2]])


@pytest.mark.parametrize(
    ("clients", "num_groups", "curvature", "method", "message"),
    [
        ([[ONE]], 2, -1.0, "assignment", "2 groups of 1 hulls; allowed are 1 to 1"),
        ([[ONE]], 0, -1.0, "assignment", "0 groups of 1 hulls"),
        ([[], []], 1, -1.0, "spectral", "1 groups of 0 hulls"),
        ([], 1, -1.0, "assignment", "1 groups of 0 hulls"),
        ([[ONE, ONE, ONE]], 3, -1.0, "kernighan-lin", "two groups, not 3"),
    ],
)
def test_what_is_refused(
    clients: list[Client], num_groups: int, curvature: float, method: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        group(clients, num_groups, curvature, method)

"""Generated data: trees of nodes with topics and words, and uniform points of two classes."""

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Floats, Integers
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import clean_edges

NUM_TOPICS = 6
TOPIC_NAMES = tuple(str(topic) for topic in range(NUM_TOPICS))
NUM_WORDS = 300
TOPIC_WORDS = 50
WORDS_PER_NODE = 12
ON_TOPIC = 0.25
DRIFT = 0.25
CONCENTRATION = 2.0
FEWEST_NODES = 150
MOST_NODES = 300
LEAST_BRANCHING = 2.0
MOST_BRANCHING = 8.0
MOST_SIBLING_LINKS = 0.2
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False)
class Tree:
    """features (N, NUM_WORDS) float32 of 0 and 1; edge_index (2, E) int64, clean; labels (N,)
    int64; branching."""

    features: NDArray[np.float32]
    edge_index: Integers
    labels: Integers
    branching: float


def generate_tree(seed: int, client: int) -> Tree:
    """The graph of client number `client`, 0 or more, in the data set `trees`: a hierarchy with a
    branching that differs from client to client. The same arguments give the same graph.

    The graph is a random tree of 150 to 300 nodes, the branching between 2 (deep) and 8 (flat),
    with a few siblings linked, so that there are triangles. Mean Forman-Ricci curvature is
    therefore about -2 at some clients and -7 at others.

    A node's label is one of `NUM_TOPICS` topics. A child has its parent's topic, or, with
    probability `DRIFT`, one drawn from the client's own distribution of topics (Dirichlet), so that
    clients differ in which topics they hold. A node's features are the words it uses: a few of its
    topic's words, which all clients share, among frequent words without meaning. The words alone,
    or the few labelled nodes of one client alone, predict a topic poorly: neighbours help, and so
    do other clients. Ten clients, a fifth of the nodes labelled, mean over seeds 0-2: majority
    class 41%, words alone 53%, a GCN of width 64 at each client 73%, the same GCN under FedAvg 78%.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(client + 1,)))
    # Multiples of the golden ratio are spread evenly over the unit interval, whatever the number of
    # clients.
    spread = (np.random.default_rng(seed).random() + client * GOLDEN) % 1
    branching = LEAST_BRANCHING + (MOST_BRANCHING - LEAST_BRANCHING) * spread
    num_nodes = int(rng.integers(FEWEST_NODES, MOST_NODES + 1))
    parents = _grow(num_nodes, branching, rng)
    labels = _topics(parents, rng)
    return Tree(_words(labels, seed, rng), _tree_edges(parents, rng), labels, branching)


def tree_digest(seed: int, num_clients: int) -> str:
    """SHA-256 of the settings that determine all clients' graphs."""
    return hashlib.sha256(f"trees {seed} {num_clients}".encode()).hexdigest()


def _grow(num_nodes: int, branching: float, rng: np.random.Generator) -> Integers:
    """Parents, level by level: each node has one child or more, `branching` on average; the root is
    its own parent."""
    parents = np.zeros(num_nodes, dtype=np.int64)
    num_made = 1
    node = 0
    while num_made < num_nodes:
        children = 1 + rng.poisson(branching - 1)
        parents[num_made : num_made + children] = node
        num_made = num_made + children
        node = node + 1
    return parents


def _topics(parents: Integers, rng: np.random.Generator) -> Integers:
    shares = rng.dirichlet(np.full(NUM_TOPICS, CONCENTRATION))
    fresh = rng.choice(NUM_TOPICS, size=len(parents), p=shares)
    drifts = rng.random(len(parents)) < DRIFT
    drifts |= parents == 0  # the root's children start subtrees of their own
    topics = fresh.copy()
    for node in np.flatnonzero(~drifts):  # ascending: a parent comes before its children
        topics[node] = topics[parents[node]]
    return topics


def _tree_edges(parents: Integers, rng: np.random.Generator) -> Integers:
    """The edges of the tree, and links between neighbouring siblings at a rate of the client's
    own.
    """
    nodes = np.arange(1, len(parents))
    siblings = nodes[1:][parents[2:] == parents[1:-1]]
    linked = siblings[rng.random(len(siblings)) < rng.uniform(0, MOST_SIBLING_LINKS)]
    links = np.stack([np.concatenate([nodes, linked]), np.concatenate([parents[1:], linked - 1])])
    return clean_edges(links, len(parents))


def _words(labels: Integers, seed: int, rng: np.random.Generator) -> NDArray[np.float32]:
    shared = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    vocabulary = np.stack(
        [shared.choice(NUM_WORDS, TOPIC_WORDS, replace=False) for _ in range(NUM_TOPICS)]
    )
    frequency = 1 / np.arange(1, NUM_WORDS + 1)
    shape = (len(labels), WORDS_PER_NODE)
    chances = shared.permutation(frequency / frequency.sum())
    common = rng.choice(NUM_WORDS, size=shape, p=chances)
    topical = vocabulary[labels[:, None], rng.integers(TOPIC_WORDS, size=shape)]
    features = np.zeros((len(labels), NUM_WORDS), dtype=np.float32)
    words = np.where(rng.random(shape) < ON_TOPIC, topical, common)
    np.put_along_axis(features, words, 1, axis=1)
    return features


POINTS_STREAM = 11
HYPERPLANE_STREAM = 12
"""Random streams of the seed."""

MIN_SIDE = 0.05
"""Minimum share of the points in a class; with fewer the hyperplane is drawn again."""

TRIES = 1000


@dataclass(frozen=True)
class Hyperplane:
    """A geodesic of the disc: the points x with ⟨−p ⊕ x, w⟩ = 0 (Prakash et al., 2024, eq. 5).

    Attributes
    ----------
    reference : tuple of float
        p, a point of the hyperplane.
    normal : tuple of float
        w, not 0.
    curvature : float
        Negative.
    """

    reference: tuple[float, float]
    normal: tuple[float, float]
    curvature: float

    def distance(self, points: Floats) -> Floats:
        """Hyperbolic distance of each point, positive on the side to which the normal points.

        sinh(√k d) = 2√k ⟨−p ⊕ x, w⟩ / ((1 − k‖−p ⊕ x‖²) ‖w‖) (Ganea et al., 2018, theorem 5). The
        denominators of the Möbius sum cancel: with u = x − p, its numerator is (1 − k‖p‖²) u −
        k‖u‖² p.

        Parameters
        ----------
        points : (..., 2), float64
            Inside the disc.

        Returns
        -------
        (...), float64
            The error is at most eps·exp(√k (‖p‖ + ‖x‖))/√k with hyperbolic norms, as from rounding
            p, w and x.
        """
        k = -self.curvature
        p = np.array(self.reference)
        w = np.array(self.normal)
        u = points - p
        defect = _defect(p, k)
        numerator = defect * u - k * (u * u).sum(axis=-1, keepdims=True) * p
        denominator = defect * _defect(points, k) * np.hypot(*w)
        height = 2 * math.sqrt(k) * (numerator @ w) / denominator
        return np.arcsinh(height) / math.sqrt(k)


def _defect(points: Floats, k: float) -> Floats:
    """1 − k‖x‖² as a product, without cancellation near the boundary."""
    norm = math.sqrt(k) * np.hypot(points[..., 0], points[..., 1])
    return (1 - norm) * (1 + norm)


def uniform_points(num: int, radius: float, curvature: float, rng: np.random.Generator) -> Floats:
    """Points uniform in hyperbolic area (Prakash et al., 2024, algorithm 3, with the angle 2π U
    instead of U).

    Parameters
    ----------
    num : int, at least 0
    radius : float
        Largest Euclidean norm of a point, up to rounding, in (0, 1/√|curvature|).
    curvature : float, negative

    Returns
    -------
    (num, 2), float64
    """
    unit = 1 / math.sqrt(-curvature)
    share = radius / unit
    # sinh(R_H/2s) is r/√(1 − r²), and tanh of the inverse hyperbolic sine of y is y/√(1 + y²).
    largest = math.sqrt((1 - share) * (1 + share))
    reach = np.sqrt(1 - rng.random(num)) * share / largest
    norm = unit * reach / np.sqrt(1 + reach * reach)
    angle = 2 * np.pi * rng.random(num)
    return np.stack([norm * np.cos(angle), norm * np.sin(angle)], axis=1)


def two_classes(
    num: int, radius: float, reference: float, margin: float, curvature: float, seed: int
) -> tuple[Floats, Integers, Hyperplane]:
    """Points labelled by the side of a random hyperplane (Prakash et al., 2024, section 6.2).

    The hyperplane goes through a point of norm `reference` times `radius`. The directions of this
    point and of the normal are random, and drawn again until each class has `MIN_SIDE` of the
    points.

    Parameters
    ----------
    num : int
        The number of points before those within `margin` of the hyperplane are removed.
    radius : float
        As in `uniform_points`.
    reference : float, in [0, 1)
    margin : float, at least 0
        A hyperbolic distance.
    curvature : float, negative
    seed : int, at least 0

    Returns
    -------
    points : (n, 2), float64
    labels : (n,), int64
        1 on the side to which the normal points, else 0.
    hyperplane : Hyperplane

    Raises
    ------
    DataError
        If no hyperplane leaves enough points on both sides.
    """
    points = uniform_points(num, radius, curvature, np.random.default_rng([seed, POINTS_STREAM]))
    rng = np.random.default_rng([seed, HYPERPLANE_STREAM])
    min_side = max(1, MIN_SIDE * num)
    for _ in range(TRIES):
        to_reference, to_normal = 2 * np.pi * rng.random(2)
        norm = reference * radius
        point = (norm * math.cos(to_reference), norm * math.sin(to_reference))
        normal = (math.cos(to_normal), math.sin(to_normal))
        hyperplane = Hyperplane(point, normal, curvature)
        distance = hyperplane.distance(points)
        is_outside = np.abs(distance) >= margin
        positive = int((is_outside & (distance >= 0)).sum())
        if min(positive, int(is_outside.sum()) - positive) >= min_side:
            return points[is_outside], (distance[is_outside] >= 0).astype(np.int64), hyperplane
    raise DataError(
        f"uniform: no hyperplane leaves {MIN_SIDE:.0%} of the points on each side; allowed is a"
        f" smaller points.margin, now {margin}, or points.reference, now {reference}, or a larger"
        f" points.num, now {num}",
        key="uniform-points",
    )

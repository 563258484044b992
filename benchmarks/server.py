"""What the server does with the arrivals of a round: inner products, weights, sums."""

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.gram import gram_against_one_product, make_models
from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.geometry.min_norm import min_norm_point
from curvfed.strategies.base.aggregation import Average, Update
from curvfed.strategies.methods.hyperfed import Consistent

REPEATS = 5
CLIENTS, RESNET18 = 20, 11_000_000
RADIUS = 0.2  # the default of hyperfed.radius


def rows(place: Place) -> list[Row]:
    """Twenty clients' models of the size of ResNet18."""
    of = f"{CLIENTS} models of {RESNET18 // 1_000_000}M float32"
    product = "one matrix product of as many numbers"
    return [
        Row(f"Gram matrix of the deviations of {of}", product, "limit", gram_against_one_product),
        Row(f"consistent aggregation of {of}", product, "limit", consistent_against_one_product, 1.3),
        Row(f"average of {of}", "read the bytes once", "limit", average_against_reading, 1.3),
        Row(
            "weights of the point of least norm, 20 deviations, radius .2", "Clarabel", "peer",
            min_norm_against_clarabel,
        ),
    ]  # fmt: skip


def consistent_against_one_product(num: int = CLIENTS, length: int = RESNET18) -> Ratio:
    """A whole round's aggregation, as HyperFed's run makes it, against rows @ rows.T; one BLAS thread for both."""
    start, arrivals, matrix = make_models(num, length)
    replies = {partition: Update(100 + partition, arrays) for partition, arrays in enumerate(arrivals)}
    with threadpool_limits(1, user_api="blas"):
        return compare(
            lambda: Consistent(start, RADIUS, "unit").aggregate(replies),
            lambda: matrix @ matrix.T,
            REPEATS,
        )


def average_against_reading(num: int = CLIENTS, length: int = RESNET18) -> Ratio:
    """fedavg's aggregation against the largest of all entries, which reads every byte once."""
    start, arrivals, matrix = make_models(num, length)
    replies = {partition: Update(100 + partition, arrays) for partition, arrays in enumerate(arrivals)}
    return compare(lambda: Average(start).aggregate(replies), lambda: [row.max() for row in matrix], REPEATS)


def min_norm_against_clarabel(num: int = CLIENTS, radius: float = 0.2) -> Ratio:
    """Our exact solver against an interior-point solver on the same quadratic programme."""
    import clarabel
    from scipy import sparse

    rng = np.random.default_rng(0)
    deviations = rng.standard_normal((num, 3 * num)) + rng.standard_normal(3 * num)
    gram = deviations @ deviations.T
    identity = sparse.identity(num, format="csc")
    constraints = sparse.vstack([sparse.csc_matrix(np.ones((1, num))), -identity, identity, -identity], format="csc")
    bounds = np.concatenate([[1.0], np.zeros(num), np.full(num, (1 + radius) / num), np.full(num, (radius - 1) / num)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(3 * num)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    objective = sparse.triu(sparse.csc_matrix(gram), format="csc")

    def theirs() -> object:
        return clarabel.DefaultSolver(objective, np.zeros(num), constraints, bounds, cones, settings).solve()

    return compare(lambda: min_norm_point(gram, radius=radius), theirs, repeats=15, calls=10)

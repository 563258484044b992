"""What the classifier costs: SphereFed's Table 1, by counting.

    python -m studies.classifier_cost

prints the paper's numbers beside ours. It makes no run.
"""

from typing import NamedTuple

from curvfed.extensions.baselines.methods import ccvr
from curvfed.strategies.methods import spherefed
from studies.papers.printed_numbers import read

FEATURES, CLASSES, EXAMPLES = 1280, 100, 50_000
"""MobileNetV2 on CIFAR-100."""

ROUNDS, EPOCHS = 100, 10
VIRTUAL = 500 * CLASSES
PASSES = 100
"""Of CCVR over its virtual features. The paper does not say how many; 100 give its number."""

METHODS = ("FedAvg", "CCVR", "SphereFed (Ours)")


class Cost(NamedTuple):
    """What a method costs for its classifier in all rounds."""

    megabytes: float
    giga_operations: float


def table(values: float = 4.0) -> dict[str, Cost]:
    """The paper's table: `values` bytes for a number, both ways of one client, whole matrices.

    A step on an example counts 3 operations for each weight of the classifier, and each entry of a
    product of features 2.
    """
    weights = FEATURES * CLASSES
    products = FEATURES**2
    rounds = 2 * ROUNDS * weights
    training = 3.0 * weights * EXAMPLES * EPOCHS * ROUNDS
    moments = 2.0 * products * EXAMPLES
    virtual = 3.0 * weights * VIRTUAL * PASSES
    sizes = (rounds, rounds + CLASSES * (FEATURES + products), products + weights)
    operations = (training, training + moments + virtual, moments + 2.0 * weights * EXAMPLES)
    return {
        method: Cost(size * values / 1e6, operation / 1e9)
        for method, size, operation in zip(METHODS, sizes, operations, strict=True)
    }


def sent_here() -> dict[str, float]:
    """Megabytes as curvfed sends them: sums in float64, symmetric matrices by their triangles, a
    fixed classifier once."""
    weights = FEATURES * CLASSES
    rounds = 2 * ROUNDS * weights * 4
    sizes = (
        rounds,
        rounds + 8.0 * ccvr.VirtualFeatures.length(FEATURES, CLASSES),
        4 * weights + 8 * spherefed.length(FEATURES, CLASSES),
    )
    return {method: size / 1e6 for method, size in zip(METHODS, sizes, strict=True)}


def printed() -> dict[str, list[float]]:
    """The paper's megabytes and 10^9 operations."""
    numbers: dict[str, list[float]] = {}
    for cell in read("spherefed", "Table 1"):
        if not cell.figure:
            numbers.setdefault(cell.row, []).append(cell.value)
    return numbers


def main() -> None:
    """Print the table."""
    print("| method | MB, paper | counted | here | 10^9 operations, paper | counted |")
    print("| --- | --- | --- | --- | --- | --- |")
    here = sent_here()
    for method, (megabytes, operations) in printed().items():
        cost = table()[method]
        cells = (megabytes, cost.megabytes, here[method], operations, cost.giga_operations)
        print(f"| {method} | " + " | ".join(f"{cell:.4g}" for cell in cells) + " |")


if __name__ == "__main__":
    main()

"""What the classifier costs: SphereFed's Table 1, by counting.

    python -m studies.classifier_cost [--to docs/measured/spherefed-table-01.csv]

prints the paper's numbers beside ours. It makes no run.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.tables import table_lines, write_csv
from curvfed.extensions.baselines.methods import ccvr
from curvfed.strategies.base import least_squares
from studies.papers.printed_numbers import read
from studies.training_cost import network

FEATURES, CLASSES, EXAMPLES = 1280, 100, 50_000
"""MobileNetV2 on CIFAR-100."""

ROUNDS, EPOCHS = 100, 10
VIRTUAL = 500 * CLASSES
PASSES = 100
"""Of CCVR over its virtual features. The paper does not say how many; 100 give its number."""

METHODS = ("FedAvg", "CCVR", "SphereFed (Ours)")

OBJECTS = {
    "FedAvg": ("W (l × C)", ""),
    "CCVR": ("W (l × C)", "μ (l × C), Σ (l × l × C)"),
    "SphereFed (Ours)": ("", "U (l × C), V (l × l)"),
}
"""What the paper says that a client sends in every round, and once."""

COLUMNS = (
    "method",
    "sent every round, paper",
    "layers sent a round, here",
    "kB of the classifier a round and way, here",
    "sent once, paper",
    "kB once, here",
    "MB in all, paper",
    "counted",
    "here",
    "10^9 operations, paper",
    "counted",
    "accuracy, paper (%)",
)


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
        4 * weights + 8 * least_squares.length(FEATURES, CLASSES),
    )
    return {method: size / 1e6 for method, size in zip(METHODS, sizes, strict=True)}


def kilobytes_a_round(method: str) -> float:
    """What a client sends of the classifier in a round, and receives as well."""
    return FEATURES * CLASSES * 4 / 1e3 if OBJECTS[method][0] else 0.0


def layers_sent(method: str) -> int:
    """Layers of MobileNetV2 with parameters that a client sends in a round."""
    model = network("mobilenetv2", is_fixed=not OBJECTS[method][0])
    return sum(
        any(parameter.requires_grad for parameter in layer.parameters(recurse=False))
        for layer in model.modules()
    )


def printed() -> dict[str, list[float]]:
    """The paper's megabytes, 10^9 operations and accuracy in %."""
    numbers: dict[str, list[float]] = {}
    for cell in read("spherefed", "Table 1"):
        numbers.setdefault(cell.row, []).append(cell.value)
    return numbers


def rows() -> list[list[str]]:
    """The table's rows, as `COLUMNS` names them."""
    lines = []
    here = sent_here()
    for method, (megabytes, operations, accuracy) in printed().items():
        cost = table()[method]
        every_round, once = OBJECTS[method]
        a_round = kilobytes_a_round(method)
        kilobytes_once = 1e3 * here[method] - 2 * ROUNDS * a_round
        cells = (megabytes, cost.megabytes, here[method], operations, cost.giga_operations)
        sizes = [str(layers_sent(method)), f"{a_round:g}", once, f"{kilobytes_once:.0f}"]
        numbers = [f"{cell:.4g}" for cell in cells]
        lines.append([method, every_round, *sizes, *numbers, f"{accuracy:.2f}"])
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.classifier_cost")
    parser.add_argument("--to", type=Path, help="a CSV file for the table")
    options = parser.parse_args(arguments)
    lines = rows()
    print("\n".join(table_lines(COLUMNS, lines)))
    if options.to:
        write_csv(options.to, COLUMNS, lines)


if __name__ == "__main__":
    main()

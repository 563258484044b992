"""The errors of the maps of hyperbolic space are at most those of geoopt and HypLL.

`python tests/long/test_peer_errors.py docs/measured/errors.md` writes the page of errors.
"""

import csv
import math
import statistics
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "support"))  # when it is run as a program

import pytest
import torch
from exact_maps import exact_results
from peer_maps import CURVATURES, DTYPES, OPERATIONS, Operation, bound, directions, points

ABOUT = """\
# Errors of the operations

    python tests/long/test_peer_errors.py docs/measured/errors.md

writes this page and [every row](errors.csv). Each cell is ours / theirs, in units of eps, against a computation in 80
digits: 40 pairs of points for each of two curvatures, from close to the origin to close to the boundary. "By its
condition" is in units of eps·(1 + condition), where about 1 is what rounding the arguments and the result costs by
itself.
"""
HEADS = ("what", "dtype", "against", "largest by its condition", "largest", "median", "not finite")


class Spread(NamedTuple):
    """Errors ‖result − exact‖/‖exact‖, Euclidean norms of all coordinates; for `inner` Σ|xᵢyᵢ|
    stands for ‖exact‖.

    `conditioned` is the largest in units of eps·(1 + condition): 1 is about what rounding arguments
    and result costs by itself. `largest` and `median` are in units of eps, whatever the condition.
    `bad` are results that are not finite.
    """

    conditioned: float
    largest: float
    median: float
    bad: int


@cache
def spreads(number: int, dtype: torch.dtype) -> dict[str, Spread]:
    """Of peers by their names, and of ours, whose name is ""."""
    one = OPERATIONS[number]
    result: dict[str, list[tuple[float, float]]] = {name: [] for name in ("", *one.peers)}
    for curvature in CURVATURES:
        at = hard_points(one, dtype, curvature)
        _, arguments = bound(one, "", curvature, dtype, at)
        expected = exact_results(
            one.space, one.name, curvature, [argument.tolist() for argument in arguments]
        )
        for name, errors in result.items():
            function, given = bound(one, name, curvature, dtype, at)
            got = function(*given)
            if name and (one.space, one.name) == ("lorentz", "log0"):
                # as a tangent vector at the origin of the hyperboloid it has a time of 0
                got = got[:, 1:]
            rows = got.reshape(len(expected), -1).tolist()
            errors += [exact.errors(row) for row, exact in zip(rows, expected, strict=True)]
    return {name: spread(errors, torch.finfo(dtype).eps) for name, errors in result.items()}


def spread(result: list[tuple[float, float]], eps: float) -> Spread:
    finite = [pair for pair in result if math.isfinite(pair[0])]
    plain = [error / eps for error, _ in finite]
    conditioned = max(error / eps / (1 + condition) for error, condition in finite)
    return Spread(conditioned, max(plain), statistics.median(plain), len(result) - len(finite))


def hard_points(one: Operation, dtype: torch.dtype, curvature: float) -> dict[str, torch.Tensor]:
    """40 pairs: apart, across, near, near the origin, up to 0.9 of the ball's radius."""
    generator = torch.Generator().manual_seed(1)
    x, y = [], []
    end = 2 * math.atanh(1 - 16 * torch.finfo(dtype).eps)
    for r in (1e-6, 1e-3, 0.1, 1.0, 3.0, 6.0, 9.0, 0.9 * end):
        at, *others = directions(4, generator)
        x += 5 * [r * at]
        y += [r * others[0], -0.9 * r * at, 1.01 * r * at, 1e-3 * others[1], r / 2 * others[2]]
    return points(one.space, curvature, dtype, torch.stack(x), torch.stack(y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "number", range(len(OPERATIONS)), ids=lambda n: f"{OPERATIONS[n].space}.{OPERATIONS[n].name}"
)
def test_our_errors_are_at_most_the_peers(number, dtype):
    # Below 1, less than what rounding arguments and result costs by itself, there is nothing to be
    # better in. Where a peer has no number at all its largest error is not known.
    result = spreads(number, dtype)
    ours = result.pop("")
    assert ours.bad == 0
    for theirs in result.values():
        assert ours.conditioned <= max(theirs.conditioned, 1.0)
        assert theirs.bad or ours.largest <= max(theirs.largest, 1.0)
        # Half of the points are easy for everybody: another curvature or another convention would
        # show.
        assert dtype == torch.float32 or (theirs.median < 1e6 and ours.median < 4)


def test_exact_results_and_their_condition():
    (one,) = exact_results("poincare", "dist", -0.25, [[[0.0, 0.0]], [[1.0, 0.0]]])
    # 2·artanh(1/2)/(1/2) is 2 ln 3, and its slope over a relative change of x is 4/(1 − 1/4)/3 of
    # that.
    assert float(one.vector[0]) == pytest.approx(2 * math.log(3), rel=1e-15)
    assert one.condition == pytest.approx((8 / 3) / (2 * math.log(3)), rel=1e-12)
    assert one.errors([math.nan]) == (math.inf, one.condition)
    assert one.errors([2 * math.log(3) * 1.5])[0] == pytest.approx(0.5)


def main(page: Path) -> None:
    rows = []
    for number, one in enumerate(OPERATIONS):
        for dtype in DTYPES:
            result = spreads(number, dtype)
            for peer in one.peers:
                pairs = zip(result[""], result[peer], strict=True)
                cells = [f"{ours:.2g} / {theirs:.2g}" for ours, theirs in pairs]
                rows.append([f"{one.space}.{one.name}", str(dtype)[6:], peer, *cells])
    write_page(page, rows)


def write_page(page: Path, rows: list[list[str]]) -> None:
    """All rows as CSV beside the page, which has the worst row of each space and peer."""
    with page.with_suffix(".csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEADS, *rows])
    worst: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        place = (row[0].partition(".")[0], row[2])
        if place not in worst or _ours(row) > _ours(worst[place]):
            worst[place] = row
    shown = [list(HEADS), ["---"] * len(HEADS), *worst.values()]
    lines = [
        ABOUT,
        f"Of {len(rows)} rows, those in which our error by its condition is largest, for each space"
        " and peer:",
        "",
        *(f"| {' | '.join(row)} |" for row in shown),
    ]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _ours(row: list[str]) -> float:
    return float(row[3].partition(" / ")[0])


def test_the_page_has_the_worst_rows_and_its_table_all(tmp_path):
    good = ["poincare.dist", "float32", "geoopt", "0.5 / 2e+05", "1 / 2", "1 / 2", "0 / 0"]
    bad = ["poincare.exp", "float64", "geoopt", "1.5 / 2e+04", "1 / 2", "1 / 2", "0 / 9"]
    write_page(tmp_path / "page.md", [bad, good])
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"\n| {' | '.join(bad)} |\n" in text
    assert good[0] not in text
    with (tmp_path / "page.csv").open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == [list(HEADS), bad, good]


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""How cost grows: exponents that are known, curves whose work runs, points that are left out, a page that tells all."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import many_clients
from benchmarks.growth import __main__ as command
from benchmarks.growth.curves import CURVES, GROWS, Curve, chosen, up_to
from benchmarks.growth.fit import exponent, steep
from benchmarks.growth.measure import Measured, Point, measure
from benchmarks.growth.page import page

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"
SIZES = (10, 30, 100, 300, 1_000, 3_000)
QUICK = [curve for curve in CURVES if curve.name not in ("clients.meeting", "clients.round")]


def test_an_exponent_is_that_of_the_upper_half() -> None:
    below, above = [7.0] * 3, [2e-4 * size**1.5 for size in SIZES[3:]]
    assert exponent(SIZES, below + above) == pytest.approx(1.5)
    assert exponent(SIZES[:1], [1.0]) is None


def test_at_least_three_points_are_fitted() -> None:
    assert exponent((1, 10, 100, 1_000), (1.0, 10.0, 100.0, 1_000.0)) == pytest.approx(1)
    assert exponent((1, 10, 100, 1_000), (5.0, 1.0, 10.0, 100.0)) == pytest.approx(1)


def test_memory_that_cannot_be_told_is_not_fitted() -> None:
    values = [None, 4_096, 0, 3e6, 9e6, 3e7]
    assert exponent(SIZES, values, memory=True) == pytest.approx(1, abs=0.1)
    assert exponent(SIZES, [None] * 5 + [3e6], memory=True) is None


def test_a_curve_is_steep_where_it_exceeds_what_is_expected() -> None:
    seconds = [0.01 * size for size in SIZES]
    assert steep(SIZES, seconds, 1) == []
    bent = seconds[:3] + [3 * value for value in seconds[3:]]
    assert steep(SIZES, bent, 1) == [(100, 300)]
    assert steep(SIZES, [1e-5 * size**2 for size in SIZES], 1) == [(10, 3_000)]
    assert steep(SIZES, [1e-12 * size**2 for size in SIZES], 1) == []  # too quick to tell


@pytest.mark.parametrize("curve", QUICK, ids=lambda curve: curve.name)
def test_every_curve_has_work_to_time(curve: Curve) -> None:
    call = curve.make(curve.sizes[0] if curve.name.startswith(("clients", "points", "bins")) else 1_000)
    call()
    call()  # it is called again and again


@pytest.mark.parametrize("name", ["clients.meeting", "clients.round"])
def test_whole_phases_run_again_and_again(name: str, own_home: Path) -> None:
    [curve] = chosen([name])
    call = curve.make(2)
    call()
    call()


def test_curves_are_in_order() -> None:
    assert len({curve.name for curve in CURVES}) == len(CURVES)
    assert {curve.grows for curve in CURVES} == set(GROWS)
    for curve in CURVES:
        assert list(curve.sizes) == sorted(set(curve.sizes))
        assert len(curve.sizes) >= 3
    assert up_to((1, 2, 3, 4, 100), 0.02) == (1, 2, 3)
    assert up_to((1, 2, 3, 4, 100), 0.04) == (1, 2, 3, 4)


def of(make: Callable[[int], Callable[[], object]], expected: float = 1) -> Curve:
    return Curve("points.hull", "a hull", SIZES, make, expected, "because")


def test_what_would_take_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.growth.measure.time.perf_counter", lambda: clock[0])

    def make(size: int) -> Callable[[], object]:
        def work() -> None:
            clock[0] += size

        return work

    found = measure(of(make), SIZES, 400)
    assert [point.size for point in found.points] == [10, 30]
    assert [point.seconds for point in found.points] == [10, 30]
    assert (found.left_out, found.reason) == ([100, 300, 1_000, 3_000], "time")
    assert measure(of(make), SIZES, 1e6).left_out == []


def test_what_would_not_fit_the_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.growth.measure.peak_bytes", lambda call: 10**12)
    found = measure(of(lambda size: lambda: None), SIZES, 1e6)
    assert [point.size for point in found.points] == [10]
    assert found.reason == "memory"


def test_points_figures_and_page_are_written_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "cost"
    assert command.main(["--to", str(folder), "--only", "points.quantise", "--largest", "0.01"]) == 0
    assert command.main(["--to", str(folder), "--only", "points.hull", "--largest", "0.01"]) == 0
    told = json.loads((folder / "growth.json").read_text())
    assert told["curves"].keys() == {"points.quantise", "points.hull"}
    assert [point["size"] for point in told["curves"]["points.hull"]["points"]] == [1_000, 3_000, 10_000]
    assert told["curves"]["points.hull"]["exponent"] is not None
    assert {path.name for path in folder.iterdir()} == {"growth.json", "points.png", "points.svg"}
    text = (tmp_path / "cost.md").read_text()
    assert "(cost/points.svg)" in text
    assert "(cost/nodes.svg)" not in text


def test_points_of_another_machine_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "draw", lambda *_: None)
    folder = tmp_path / "cost"
    arguments = ["--to", str(folder), "--largest", "0.01", "--only"]
    command.main([*arguments, "points.quantise"])
    path = folder / "growth.json"
    path.write_text(path.read_text().replace('"processor": "', '"processor": "another '))
    command.main([*arguments, "points.hull"])
    assert json.loads(path.read_text())["curves"].keys() == {"points.hull"}


def test_the_page_can_be_made_anew_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "draw", lambda *_: None)
    folder = tmp_path / "cost"
    command.main(["--to", str(folder), "--largest", "0.01", "--only", "points.quantise"])
    path = folder / "growth.json"
    path.write_text(path.read_text().replace('"processor": "', '"processor": "another '))
    (tmp_path / "cost.md").unlink()
    command.main(["--to", str(folder), "--only"])
    assert "Measured on another " in (tmp_path / "cost.md").read_text()


def test_the_page_says_where_and_why_a_curve_bends_and_what_is_missing() -> None:
    points = [Point(size, seconds, 5_000_000, 5) for size, seconds in ((10, 0.1), (20, 0.2), (50, 2.0), (100, 4.0))]
    found = {"clients.round": Measured(points, [200, 500, 1_000], "time", 60)}
    text = page(found, command.machine(), "cost")
    [curve] = chosen(["clients.round"])
    assert f"* {curve.what}, clients from 20 to 50: {curve.bends}." in text
    assert f"* {curve.what}: 200, 500, 1,000 clients, for want of time (60 s for all)." in text
    assert f"| {curve.what} | 4 s at 100 | 1.90 | 1 | 5 MB at 100 | 0.00 |" in text


def test_the_page_has_the_words_of_every_curve() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for curve in CURVES:
        line = next(line for line in text.splitlines() if curve.why in line and line.startswith(f"| {curve.what} |"))
        assert f"| {curve.expected:g} |" in line
    for title in GROWS.values():
        assert f"\n## {title}\n" in text


@pytest.mark.parametrize("name", many_clients.SETTINGS)
def test_rounds_of_many_clients_are_told_but_the_last(name: str, own_home: Path) -> None:
    own = {"num-rounds": 3, "run-name": "run"} | ({"images.train-subset": 3} if "digits" in name else {})
    found = many_clients.run(3, many_clients.SETTINGS[name] | own)
    assert len(found) == 2
    assert all(one.seconds > 0 and one.resident > 10**7 for one in found)


def test_many_clients_are_held_against_few_and_memory_against_that_of_an_early_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(name: str, clients: int, rounds: int) -> tuple[many_clients.Round, ...]:
        seconds = 2.0 if clients == many_clients.FEW else 3.0
        return tuple(many_clients.Round(seconds if number else 99.0, 100 + number) for number in range(rounds))

    monkeypatch.setattr(many_clients, "measured", measured)
    time, memory = (row.measure() for row in many_clients.rows(many_clients.Place(None))[:2])
    assert time.ratio == time.low == time.high == 1.5
    assert (memory.theirs, memory.ours) == (99 + many_clients.SETTLED, 99 + many_clients.ROUNDS)
    assert (memory.low, memory.high) == (1, (99 + many_clients.ROUNDS) / (99 + many_clients.SETTLED))

"""Every row and every curve of the benchmarks works: set up and run once, at small sizes; figures
and pages are written."""

import json
from pathlib import Path

import pytest
import torch
from command_runs import round_overhead

from benchmarks import __main__ as command
from benchmarks import growth
from benchmarks.measure import Place, Row, measure
from benchmarks.rows import TOPICS, chosen, one

pytestmark = pytest.mark.filterwarnings("ignore")  # of compilers and libraries, which are not ours

QUICK = Place(quick=True)


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.mark.parametrize(
    "row", [row for _, row in chosen([], QUICK)], ids=lambda row: f"{row.what} / {row.against}"
)
def test_every_row_is_set_up_and_runs(row):
    assert measure(row, quick=True).ratio


@pytest.mark.parametrize("name", growth.CURVES)
def test_every_curve_has_work_that_can_be_repeated(name):
    if name in ("clients.round", "clients.description"):
        assert growth.CURVES[name].make(3)["seconds"] > 0
        return
    call = growth.CURVES[name].make(20 if name.startswith(("clients", "bins")) else 1_000)
    call()
    call()


def test_no_two_rows_have_the_same_words_and_words_select_them():
    for place in (Place(), Place(device="cuda:0")):
        words = [(row.what, row.against) for _, row in chosen([], place)]
        assert len(set(words)) == len(words)
    assert any("bfloat16" in what and "on cuda" in what for what, _ in words)
    assert {topic for topic, _ in chosen([], QUICK)} == set(TOPICS)
    assert chosen(["server"], QUICK)[-1][0] == "server"  # a topic is no part of a name
    assert {topic for topic, _ in chosen(["wire", "flwr run"], QUICK)} == {"wire", "whole"}
    assert one("average of 20 models", QUICK).goal == 1.3


def test_a_row_that_fails_is_told_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def fails():
        raise ValueError("no such thing")

    rows = [
        Row("one", "other", fails),
        Row("two", "other", lambda: (lambda: 1, 2.0), 1.0, is_figure=True),
    ]
    monkeypatch.setitem(TOPICS, "server", lambda place: rows)
    page, out = tmp_path / "page.md", tmp_path / "out.json"
    assert command.main(["--only", "server", "--out", str(out), "--page", str(page)]) == 1
    found = json.loads(out.read_text())["rows"]
    assert [one.get("error", one.get("ratio")) for one in found] == [
        "ValueError: no such thing",
        0.5,
    ]
    text = page.read_text()
    assert "failed: ValueError: no such thing" in text
    assert "| two | other | 0.5 | ≤ 1, met | 0.5–0.5 | 1 | 2 |  |  |" in text
    assert text.startswith("# Speed: every row\n")
    assert "1 of 1 goals met, 1 failed" in capsys.readouterr().out


def test_what_cannot_be_is_refused_before_anything_is_measured(capsys, tmp_path):
    for arguments, told in (
        (["--device", "cuda:99"], 'device = "cuda:99": allowed on this machine is'),
        (["--data", str(tmp_path / "absent")], f"--data: {tmp_path / 'absent'} is no folder"),
        (["--page", str(tmp_path / "absent" / "page.md")], "--page: there is no folder"),
        (["--only", "nothing"], "--only: no row has nothing in its name"),
    ):
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert told in capsys.readouterr().err


def test_points_figure_and_tables_of_growth_are_written_and_kept(tmp_path):
    folder, page = tmp_path / "growth", tmp_path / "growth" / "growth.md"
    for name in ("points.quantise", "points.hull"):
        assert growth.main(["--to", str(folder), "--only", name, "--largest", "0.01"]) == 0
    figures = json.loads((folder / "growth.json").read_text())
    assert figures["curves"].keys() == {"points.quantise", "points.hull"}
    assert [point["size"] for point in figures["curves"]["points.hull"]["points"]] == [
        1_000,
        3_000,
        10_000,
    ]
    assert "convex hull" in (folder / "growth.svg").read_text()
    assert "| convex hull |" in page.read_text()
    (folder / "growth.json").write_text(
        json.dumps(figures | {"machine": figures["machine"] | {"processor": "another"}})
    )
    growth.main(["--to", str(folder), "--only"])
    assert "another, " in page.read_text()
    growth.main(["--to", str(folder), "--only", "points.hull", "--largest", "0.01"])
    assert json.loads((folder / "growth.json").read_text())["curves"].keys() == {"points.hull"}


def test_sizes_that_would_take_too_long_are_left_out(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(growth.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(growth, "peak_bytes", lambda call: call())

    def work(size):
        clock[0] += size

    found = growth.measure(
        growth.Curve("", (10, 30, 100), lambda size: lambda: work(size)), 1.0, 400
    )
    assert [(point["size"], point["seconds"]) for point in found["points"]] == [(10, 10), (30, 30)]
    assert found["left_out"] == [100]


def test_an_exponent_is_that_of_the_upper_half_and_of_three_points_at_least():
    def points(values):
        return [
            {"size": 10**place, "seconds": value, "bytes": value}
            for place, value in enumerate(values)
        ]

    assert growth.exponent(points([7, 7, 7, 1, 100, 1e4]), "seconds") == pytest.approx(2)
    assert growth.exponent(points([5, 1, 10, 100]), "seconds") == pytest.approx(1)
    assert growth.exponent(points([None, 4_096, 3e6, 3e7]), "bytes") == pytest.approx(1)
    assert growth.exponent(points([None, 3e6]), "bytes") is None


def test_what_a_round_costs_beyond_training_leaves_the_first_out():
    rows = [
        {"phase": "train", "seconds": seconds, "seconds_training": "2"}
        for seconds in ("9", "3", "5")
    ]
    assert round_overhead([*rows, {"phase": "evaluate"}], workers=2) == 3


def test_the_page_of_growth_has_every_curve():
    text = (Path(__file__).parents[2] / "docs" / "measured" / "growth.md").read_text(
        encoding="utf-8"
    )
    for curve in growth.CURVES.values():
        assert f"| {curve.what} |" in text

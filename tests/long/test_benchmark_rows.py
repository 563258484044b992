"""Every row and curve of the benchmarks runs once, at small sizes; pages are written."""

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import growth
from benchmarks.measure import Place, Row, measure
from benchmarks.page import COLUMNS, goal_lines, read_parts, write_parts
from benchmarks.rows import TOPICS, chosen

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


def test_measured_rows_replace_those_of_a_page(tmp_path, monkeypatch, capsys):
    result = {"row A": 1.0, "row B": 1.0}
    goals = {"row A": 2.0, "row B": 2.0}

    def rows(place):
        return [
            Row(
                name,
                "other",
                lambda name=name: (lambda: result[name], 1.0),
                goals[name],
                1,
                is_figure=True,
                buys="what it buys",
            )
            for name in result
        ]

    monkeypatch.setitem(TOPICS, "server", rows)
    page = tmp_path / "page.md"
    command.main(["--only", "server", "--page", str(page)])
    table = page.with_suffix(".csv")
    parts = read_parts(page)
    [[(origin, stored)]] = [part.items() for part in parts.values()]
    old = "2020-01-01: an older machine"
    write_parts(page, command.INTRODUCTION, COLUMNS, {"server": {old: stored}}, goal_lines)
    result["row B"] = 3.0
    goals["row A"] = 0.5
    for _ in range(2):
        assert command.main(["--only", "row B", "--update", str(page)]) == 0
        assert "2 of 2 goals of the page are missed" in capsys.readouterr().out
    missed = "what it buys"
    row_a = ["row A", "other", "1", f"≤ 0.5, missed: {missed}", "1–1", "1", "1", "", ""]
    row_b = ["row B", "other", "3", f"≤ 2, missed: {missed}", "3–3", "3", "1", "", ""]
    assert read_parts(page) == {"server": {old: [row_a], origin: [row_b]}}
    assert table.read_bytes().startswith(b"\xef\xbb\xbfpart,what,against,ratio,")
    text = page.read_text()
    assert text.startswith(f"{command.INTRODUCTION}\nMeasured on {old}. 1 of 2 rows are of another")
    assert "\n| server | 2 | 0 | 2 | 0 |\n" in text
    assert f"\n| row B | other | 3 | ≤ 2: {missed} | 3–3 |" in text


def test_a_new_row_is_added_to_a_page_and_an_absent_table_is_named(tmp_path, monkeypatch, capsys):
    names = ["row A"]

    def rows(place):
        return [Row(name, "other", lambda: (lambda: 1.0, 1.0), 2.0, 1, True) for name in names]

    monkeypatch.setitem(TOPICS, "server", rows)
    page = tmp_path / "page.md"
    with pytest.raises(SystemExit):
        command.main(["--only", "row A", "--update", str(page)])
    assert "page.csv" in capsys.readouterr().err
    command.main(["--only", "row A", "--page", str(page)])
    names.append("row B")
    command.main(["--only", "row B", "--update", str(page)])
    assert [row[0] for row in next(iter(read_parts(page)["server"].values()))] == names
    assert "\n| server | 2 | 2 | 0 | 0 |\n" in page.read_text()

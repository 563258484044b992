"""Every row and every curve of the benchmarks works: set up and run once, at small sizes; figures
and pages are written."""

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import growth
from benchmarks.measure import Place, Row, measure
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
    found = {"row A": 1.0, "row B": 1.0}
    goals = {"row A": 2.0, "row B": 2.0}

    def rows(place):
        return [
            Row(
                name,
                "other",
                lambda name=name: (lambda: found[name], 1.0),
                goals[name],
                1,
                is_figure=True,
                buys="what it buys",
            )
            for name in found
        ]

    monkeypatch.setitem(TOPICS, "server", rows)
    page = tmp_path / "page.md"
    command.main(["--only", "server", "--page", str(page)])
    stored = page.read_text().replace("Measured on ", "Measured on 2020-01-01, ")
    page.write_text(stored)
    found["row B"] = 3.0
    goals["row A"] = 0.5
    for _ in range(2):
        assert command.main(["--only", "row B", "--update", str(page)]) == 0
        assert "2 of 2 goals of the page are missed" in capsys.readouterr().out
    old, new = page.read_text().partition("## server")[2].split("\nMeasured on ")
    assert "| row A | other | 1 | ≤ 0.5, **missed**: what it buys | 1–1 | 1 | 1 |  |  |" in old
    assert "| row B | other | 3 | ≤ 2, **missed**: what it buys | 3–3 | 3 | 1 |  |  |" in new
    assert page.read_text().count("| row B |") == 1
    assert page.read_text().startswith(stored.partition("\n## ")[0])

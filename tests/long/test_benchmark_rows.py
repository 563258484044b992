"""Every row and every curve of the benchmarks works: set up and run once, at small sizes; figures
and pages are written."""

import pytest
import torch

from benchmarks import growth
from benchmarks.measure import Place, measure
from benchmarks.rows import chosen

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

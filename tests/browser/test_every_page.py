"""Every kind of page on a wide screen, a narrow one and paper, light and dark: nothing is cut,
nothing is white on dark paper, and nothing is folded in print.

The pages of an extension are made by its own `page_examples.py` among its tests.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from app_runs import QUICK, run
from browser_page import check_page
from graph_fixtures import write_tu
from hull_nodes import hull_run
from tiers import only

from curvfed.server_app.report.run_page import write_report

Make = Callable[[Path], Path]
"""Makes a page in a folder."""

EXTENSIONS = Path(__file__).parents[2] / "extensions"


def of_nodes(folder: Path) -> Path:
    return write_report(run(folder, clients=6, method="flatland", num_rounds=3).path)


def of_graphs(folder: Path) -> Path:
    write_tu(folder)
    settings = {"dataset": "MUTAG", "data_dir": str(folder), "num_rounds": 3}
    return write_report(run(folder, clients=2, method="flatland", **settings).path)


def of_images(folder: Path) -> Path:
    return write_report(run(folder, clients=12, method="hyperfed", **QUICK["images"]).path)


def of_points(folder: Path) -> Path:
    return write_report(run(folder, method="fedavg", **QUICK["points"]).path)


def of_hulls(folder: Path) -> Path:
    return write_report(hull_run(folder).path)


def of_secure_sums(folder: Path) -> Path:
    return write_report(run(folder, method="fedavg", secure_sum=True).path)


OWN: dict[str, Make] = {
    "nodes": of_nodes,
    "graphs": of_graphs,
    "images": of_images,
    "points": of_points,
    "hulls": of_hulls,
    "secure sums": of_secure_sums,
}


def pages_of(path: Path) -> dict[str, Make]:
    """The pages of an extension."""
    name = f"page_examples_{path.parents[1].name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, Make] = module.PAGES
    return pages


PAGES = dict(OWN)
for examples in sorted(EXTENSIONS.glob("*/tests/page_examples.py")):
    PAGES |= pages_of(examples)


QUICK_ONES = ("nodes", "comparison of links")


@pytest.mark.parametrize("name", only(PAGES, QUICK_ONES.__contains__))
@pytest.mark.usefixtures("own_home")
def test_nothing_is_cut_or_white_in_any_view(name, tab, tmp_path):
    check_page(tab, PAGES[name](tmp_path), pictures=1)

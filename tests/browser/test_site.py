"""The site of the documentation on screens and on paper, light and dark. Its tables are as wide as
their text; on screens they scroll in their own box."""

import sys
from pathlib import Path
from subprocess import run

import pytest
from browser_page import CUT, VIEWS, faults_of_colours, screenshot, show

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path.stem != "README")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` makes it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", str(ROOT / "docs"), str(folder)]
    run(command, check=True)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_or_white(page, site, tab):
    tab.goto((site / f"{page}.html").as_uri())
    faults = []
    for view in VIEWS:
        show(tab, view)
        result = [*tab.evaluate(CUT, view.media == "screen")]
        result += faults_of_colours(screenshot(tab), view, [])
        faults += [f"{view.name}: {fault}" for fault in result]
    assert not faults, "\n".join(faults)

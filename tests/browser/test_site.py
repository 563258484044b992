"""The site of the documentation on screens and on paper, light and dark. Its tables are as wide as
their text; on screens they scroll in their own box."""

import sys
from pathlib import Path
from subprocess import run

import pytest
from browser_page import CUT, VIEWS, faults_of_colours, screenshot, show

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    str(path.relative_to(DOCS).with_suffix(""))
    for path in DOCS.rglob("*.md")
    if path.stem != "README" and "plots" not in path.parts
)
REFERENCE = sorted(f"reference/{path.stem}" for path in (DOCS / "reference").glob("*.md"))
FORMULAS = sorted(path.stem for path in (DOCS / "methods").glob("*.md") if "$" in path.read_text())


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


@pytest.mark.long
def test_tables_of_the_reference_do_not_scroll_on_a_laptop(site, tab):
    """At 1,280 pixels the whole row of a key, a figure or a file is in view."""
    scrolling = """[...document.querySelectorAll(".table-wrapper")]
        .filter(one => one.scrollWidth > one.clientWidth + 1)
        .map(one => one.textContent.trim().slice(0, 60))"""
    tab.set_viewport_size({"width": 1280, "height": 900})
    for page in REFERENCE:
        tab.goto((site / f"{page}.html").as_uri())
        assert tab.evaluate("document.querySelectorAll('.table-wrapper').length"), page
        assert tab.evaluate(scrolling) == [], page


@pytest.mark.long
@pytest.mark.parametrize("method", FORMULAS)
def test_formulas_are_set_without_a_network(method, site, tab):
    tab.goto((site / "methods" / f"{method}.html").as_uri())
    tab.wait_for_selector("mjx-container mjx-math")
    text = tab.inner_text("article")
    assert "\\(" not in text
    assert "\\[" not in text
    assert "$" not in text

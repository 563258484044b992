"""The site of the documentation: built without a warning, without a dead link inside it, and no
wider than its screen."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CLIPPED = """() => [...document.querySelectorAll("article *")].filter(one => {
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    const scrolls = one.closest("pre, .table-wrapper, .math, mjx-container, .sr-only, .headerlink");
    return !scrolls && box.width && style.position !== "absolute"
        && (box.right > document.documentElement.clientWidth + 1
            || (style.overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1));
}).map(one => one.tagName + ": " + one.textContent.trim().slice(0, 60))"""
"""What reaches beyond the screen, or hides a part of itself, and is in no box that scrolls."""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Targets(HTMLParser):
    """The names of a page's places, and what it points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "docs",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_no_link_inside_the_site_is_dead(site):
    pages = {
        page.resolve(): Targets(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")
    }
    assert len(pages) > 30
    dead, followed = [], 0
    for page, told in pages.items():
        for link in told.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            followed += 1
            known = pages[there].names if there in pages else {""}
            if not there.is_file() or (
                parts.fragment and there in pages and unquote(parts.fragment) not in known
            ):
                dead.append(f"{page.name}: {link}")
    assert followed > 1000
    assert dead == []


def test_the_first_page_is_a_front_door(site, context):
    tab = context.new_page()
    tab.goto((site / "index.html").as_uri(), wait_until="load")
    pictures = tab.evaluate(
        "[...document.querySelectorAll('article img')].map(one => one.naturalWidth)"
    )
    words = tab.inner_text("article")
    blocks = tab.eval_on_selector_all(
        "article pre", "blocks => blocks.map(one => one.innerText.trim())"
    )
    tab.close()
    assert [width for width in pictures if width > 500]
    assert words.lstrip().startswith("curvfed")
    assert "federated learning in curved spaces" in words.splitlines()[2]
    install, run, output = [
        next(number for number, block in enumerate(blocks) if block.startswith(begin))
        for begin in ("pip install", "curvfed simulate", "curvfed | ")
    ]
    assert install < run < output
    assert "without a GPU" in words
    assert {page.stem for page in (ROOT / "docs").glob("tutorial-*.md")} <= {
        link.partition(".html")[0]
        for link in Targets((site / "index.html").read_text(encoding="utf-8")).links
    }


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off(site, context, width):
    tab = context.new_page()
    tab.set_viewport_size({"width": width, "height": 900})
    found = {}
    for page in sorted(site.rglob("*.html")):
        tab.goto(page.as_uri(), wait_until="load")
        if cut := tab.evaluate(CLIPPED)[:3] + (["the page"] if tab.evaluate(OVERFLOW) > 0 else []):
            found[page.name] = cut
    tab.close()
    assert found == {}

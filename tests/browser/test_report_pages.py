"""Reports as a browser shows them: nothing is fetched, nothing is wrong, every picture is there on
light paper and dark."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from app_runs import EVERY, QUICK, run
from hull_nodes import hull_run
from PIL import Image
from report_page import HOSTILE

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report.run_page import write_report
from curvfed.strategies.config.parse import parse

CONTRAST = 80
"""Least difference, of 255, between the lightest and the darkest of a picture."""

OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PAPER = "getComputedStyle(document.body).backgroundColor"
BROKEN = "[...document.images].filter(one => !one.complete || !one.naturalWidth).length"
PICTURES = """() => {
    const gallery = document.querySelector(".gallery")?.getBoundingClientRect();
    return [...document.querySelectorAll("svg")].map(one => {
        const box = one.getBoundingClientRect();
        return [box.left - gallery.left, box.top - gallery.top, box.right - gallery.left, box.bottom - gallery.top];
    });
}"""
"""Where each picture is in the gallery, in pixels."""

CUT = """() => {
    const beyond = (one, frame) => one.width + one.height > 0
        && (one.left < frame.left - 1 || one.top < frame.top - 1 || one.right > frame.right + 1
            || one.bottom > frame.bottom + 1);
    const drawn = [...document.querySelectorAll("svg")].flatMap(svg => [...svg.querySelectorAll("path, use, text, image")]
        .filter(one => !one.closest("[clip-path], defs, clipPath, symbol"))
        .filter(one => beyond(one.getBoundingClientRect(), svg.getBoundingClientRect()))
        .map(one => svg.closest("figure")?.textContent.trim().slice(0, 60) ?? "a picture"));
    const hidden = [...document.querySelectorAll("body *")]
        .filter(one => getComputedStyle(one).overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1)
        .map(one => one.textContent.trim().slice(0, 60));
    return [...new Set([...drawn, ...hidden])];
}"""
"""Pictures with something drawn beyond their frame, and text that is wider than its place, which
hides the rest."""


@pytest.fixture
def tab(context) -> Iterator[Any]:
    """An empty page."""
    page = context.new_page()
    yield page
    page.close()


def check(tab: Any, path: Path, pictures: int = 1) -> None:
    """Open a report, and look at it; it has at least so many pictures."""
    wrong: list[Any] = []
    asked: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(error))  # a bound method of a list is not taken
    tab.on("requestfailed", lambda request: wrong.append(request.url))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(path.as_uri())
    papers = []
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        papers.append(tab.evaluate(PAPER))
        check_pictures(tab, pictures)
    assert len(set(papers)) == 2
    tab.evaluate(OPEN)
    for width in (1280, 600, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate(CUT) == [], f"cut off at {width} pixels"
        assert tab.evaluate(OVERFLOW) == 0, f"the page is wider than {width} pixels"
    assert tab.evaluate(BROKEN) == 0
    assert wrong == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def check_pictures(tab: Any, least: int) -> None:
    """Every picture has a place, and something is drawn in it."""
    boxes = tab.evaluate(PICTURES)
    assert len(boxes) >= least
    if not boxes:
        return
    shown = Image.open(BytesIO(tab.locator(".gallery").screenshot(type="jpeg"))).convert("L")
    for left, top, right, bottom in boxes:
        assert right - left >= 200
        assert bottom - top >= 40
        low, high = shown.crop((round(left), round(top), round(right), round(bottom))).getextrema()
        assert high - low >= CONTRAST


@pytest.mark.long
@pytest.mark.parametrize(("method", "task"), EVERY)
@pytest.mark.usefixtures("own_home")
def test_the_page_of_every_method(method, task, tab, tmp_path):
    found = run(tmp_path, method=method, **QUICK[task])
    assert found.summary["status"] == "completed"
    # which has no rounds
    check(tab, write_report(found.path), pictures=1 if method == "discriminant" else 2)


@pytest.mark.usefixtures("own_home")
def test_the_page_of_a_run_on_images_of_many_clients(tab, tmp_path):
    found = run(tmp_path, method="hyperfed", clients=12, **QUICK["images"])
    check(tab, write_report(found.path), pictures=5)


@pytest.mark.usefixtures("own_home")
def test_the_page_of_many_hulls(tab, tmp_path):
    check(tab, write_report(hull_run(tmp_path, clients=12).path), pictures=2)


@pytest.mark.parametrize("text", [HOSTILE, "x" * 1000], ids=["hostile", "one long word"])
def test_the_page_of_a_run_that_failed(text, tab, tmp_path):
    config = parse({"results-dir": str(tmp_path), "run-name": "failed"})
    directory = RunDirectory.open(config)
    directory.write_summary(failed_summary(text, "config", config))
    check(tab, write_report(directory.path), pictures=0)


FAULTS = {
    "script": "<script>console.error('so')</script>",
    "error": "<script>so()</script>",
    "fetched": '<img src="http://localhost:9/so.png" alt="">',
    "file": '<link rel="stylesheet" href="so.css">',
    "broken": '<img src="data:," alt="">',
    "wide": '<div style="width: 90rem">so</div>',
    "no dark": "<style>body { background: white !important }</style>",
    "small": "<style>svg { display: none !important }</style>",
    "cut": (
        "<div style='overflow: hidden; width: 3rem; white-space: nowrap'>so it is not all"
        " shown</div>"
    ),
    "beyond": (
        "<svg viewBox='0 0 100 100' width='100' height='100'><text x='60' y='50'>so on</text></svg>"
    ),
    "empty": "<style>svg * { opacity: 0 }</style>",
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with which nothing is wrong."""
    return write_report(hull_run(tmp_path_factory.mktemp("sound")).path).read_text()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_page_is_found(fault, sound, tab, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(sound.replace("</main>", f"</main>{FAULTS[fault]}"))
    with pytest.raises(AssertionError):
        check(tab, path)

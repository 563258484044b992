"""A page in a browser, on screens and paper, light and dark: what is cut, missing, wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CONTRAST = 80
"""Least difference, of 255, between the lightest and the darkest of a picture."""

WHITE = 200
"""Lightness, of 255, that no area has on dark paper, and all paper has in print."""

BLOCK = 16
"""Side in pixels of the areas of a screenshot; letters are thinner."""


@dataclass(frozen=True)
class View:
    """A window or a sheet of paper.

    Attributes
    ----------
    name : str
    width : int
        In CSS pixels. A4 has 688 between the margins of the style sheet.
    media, scheme : str
    scrolls : bool
        Whether a table may scroll in its own box.
    """

    name: str
    width: int
    media: str
    scheme: str
    scrolls: bool


VIEWS = [
    View(f"{name}, {scheme}", width, media, scheme, scrolls)
    for name, width, media, scrolls in (
        ("1,280 pixels", 1280, "screen", False),
        ("420 pixels", 420, "screen", True),
        ("A4", 688, "print", False),
    )
    for scheme in ("light", "dark")
]

CUT = """(scrolls) => {
    const beyond = (one, frame) => one.width + one.height > 0
        && (one.left < frame.left - 1 || one.top < frame.top - 1 || one.right > frame.right + 1
            || one.bottom > frame.bottom + 1);
    const faults = [];
    const told = (what, one) => faults.push(`${what}: ${one.textContent.trim().slice(0, 60)}`);
    for (const svg of document.querySelectorAll("svg"))
        for (const part of svg.querySelectorAll("path, use, text, image, circle")) {
            const inside = part.closest("[clip-path], defs, clipPath, symbol");
            if (!inside && beyond(part.getBoundingClientRect(), svg.getBoundingClientRect()))
                told("drawn beyond its picture", part.textContent ? part : svg);
        }
    for (const one of document.querySelectorAll("body *")) {
        // MathJax writes each formula a second time, for screen readers.
        if (one.closest("svg, mjx-assistive-mml") || !one.checkVisibility()) continue;
        const overflow = getComputedStyle(one).overflowX;
        const isWider = one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0;
        if (isWider && ["hidden", "clip"].includes(overflow)) told("cut", one);
        if (isWider && ["auto", "scroll"].includes(overflow) && !scrolls) told("must scroll", one);
    }
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) told("the page is wider than its window", root);
    return [...new Set(faults)];
}"""
"""Pictures with something drawn beyond their frame, and text that is wider than its place."""

FOLDED = """[...document.querySelectorAll("details > .scroll")]
    .filter(one => !one.checkVisibility()).map(one => one.textContent.trim().slice(0, 60))"""
FADED = "getComputedStyle(document.body).printColorAdjust === 'exact' ? [] : ['colours']"
TALL = """[...document.querySelectorAll(".scroll")]
    .filter(one => one.scrollHeight > one.clientHeight + 1)
    .map(one => one.textContent.trim().slice(0, 60))"""
"""On paper: folded text, colours that a printer leaves out, and tables that scroll up and down."""

OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
BROKEN = "[...document.images].filter(one => !one.complete || !one.naturalWidth).length"
PICTURES = """() => [...document.querySelectorAll("svg")].map(one => {
    const box = one.getBoundingClientRect();
    return [box.left + scrollX, box.top + scrollY, box.right + scrollX, box.bottom + scrollY];
})"""
"""Where each picture is in the page, in pixels."""
PHOTOGRAPHS = PICTURES.replace('"svg"', '"svg image"')
"""Where pixels are, which may be those of the data."""


def check_page(tab: Any, path: Path, pictures: int = 0) -> None:
    """Open a page, and look at it in all views; it has at least so many pictures.

    Raises
    ------
    AssertionError
        Names all that is wrong, by view.
    """
    wrong: list[Any] = []
    asked: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(error))  # a bound method of a list is not taken
    tab.on("requestfailed", lambda request: wrong.append(request.url))
    tab.on("request", lambda request: asked.append(request.url))
    tab.emulate_media(media="screen", color_scheme="light")
    tab.goto(path.as_uri())
    assert len(tab.evaluate(PICTURES)) >= pictures
    faults = [
        f"{view.name}: {fault}"
        for view in sorted(VIEWS, key=_paper_first)
        for fault in faults_in(tab, view)
    ]
    assert not faults, "\n".join(faults)
    assert tab.evaluate(BROKEN) == 0
    assert wrong == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def _paper_first(view: View) -> bool:
    """Before the tests open what is folded."""
    return view.media != "print"


def show(tab: Any, view: View) -> None:
    """Set the window, or the sheet of paper, of a tab."""
    tab.emulate_media(media=view.media, color_scheme=view.scheme)
    tab.set_viewport_size({"width": view.width, "height": 900})


def screenshot(tab: Any) -> Image.Image:
    """The lightness of the whole page."""
    return Image.open(BytesIO(tab.screenshot(full_page=True))).convert("L")


def faults_in(tab: Any, view: View) -> Iterator[str]:
    """All that is wrong in a view."""
    show(tab, view)
    if view.media == "print":
        for what, script in (("folded", FOLDED), ("faded", FADED), ("must scroll", TALL)):
            yield from (f"{what}: {text}" for text in tab.evaluate(script))
    else:
        tab.evaluate(OPEN)
    yield from tab.evaluate(CUT, view.scrolls)
    boxes = tab.evaluate(PICTURES)
    shown = screenshot(tab)
    yield from faults_of_colours(shown, view, tab.evaluate(PHOTOGRAPHS))
    for number, (left, top, right, bottom) in enumerate(boxes, 1):
        if right - left < 200 or bottom - top < 40:
            yield f"picture {number} has no place"
            continue
        low, high = shown.crop((round(left), round(top), round(right), round(bottom))).getextrema()
        if high - low < CONTRAST:
            yield f"picture {number} cannot be seen"


def faults_of_colours(shown: Image.Image, view: View, photographs: Any) -> Iterator[str]:
    """White areas on dark paper, and paper that is dark where it should be light."""
    shown = shown.copy()
    for left, top, right, bottom in photographs:
        shown.paste(0, (round(left), round(top), round(right), round(bottom)))
    is_dark = view.scheme == "dark" and view.media == "screen"
    if is_dark != (shown.getpixel((2, 2)) < WHITE):
        yield "the paper has the wrong colour"
    blocks = shown.reduce(BLOCK)
    if is_dark and blocks.getextrema()[1] >= WHITE:
        lightness = np.asarray(blocks)
        row, column = np.unravel_index(lightness.argmax(), lightness.shape)
        yield f"white at {BLOCK * column}, {BLOCK * row}"

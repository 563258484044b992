"""The README and the pages of docs/: links lead somewhere, and the front page stays one."""

import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FRONT_PAGE = 6000
"""Bytes that the README may have."""


def anchors(page: Path) -> set[str]:
    """What links into a page may name: its headings, as GitHub writes them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures, but for those on the web."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if not re.match(r"\w+:", target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_anchors_are_those_of_github(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# `flwr run`\n## Few (α = 0.1), many\n```sh\n# none\n```\n## `flwr run`\n## [A](b.md) c\n")
    assert anchors(page) == {"flwr-run", "few-α--01-many", "flwr-run-1", "a-c"}


def test_the_contents_have_every_page():
    contents = ROOT / "docs" / "README.md"
    named = {(contents.parent / target).resolve() for target in links(contents)}
    assert {page for page in (ROOT / "docs").glob("*.md") if page != contents} <= named


def test_the_readme_is_a_front_page():
    assert len((ROOT / "README.md").read_bytes()) <= FRONT_PAGE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_presets_are_there(page):
    """A word of `simulate`, `run` or `check` is a pair, a file of the reader's, or the name of a preset."""
    text = page.read_text(encoding="utf-8")
    for words in re.findall(r"\bcurvfed (?:simulate|run|check) ([^`\n#]*)", text):
        for word in words.split():
            if re.fullmatch(r"[a-z0-9/-]+", word) and not word.startswith("-"):
                assert (files("curvfed.presets") / f"{word}.toml").is_file(), word

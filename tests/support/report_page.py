"""A report taken apart."""

import html
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "br", "img", "hr"}
HOSTILE = "<script>alert('1')</script> \"><img src=x onerror=alert(2)> & $\\frac{1} </svg>"


class Page(HTMLParser):
    """A page taken apart; every element must be closed in its turn.

    tags, attributes and the visible text, `rows` from the first cell of a table's row to its
    others, and the pictures' texts and labels.
    """

    def __init__(self, page: Path | str) -> None:
        super().__init__()
        self.source = page.read_text() if isinstance(page, Path) else page
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.rows: dict[str, list[str]] = {}
        self.labels: list[str] = []
        self.alerts: list[str] = []
        self._cells: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag == "svg":
            assert dict(attrs)["role"] == "img"
            self.labels.append(dict(attrs)["aria-label"] or "")
        if dict(attrs).get("role") == "alert":
            self.alerts.append("")
        if tag == "tr":
            self._cells = []
        if tag in ("td", "th"):
            self._cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "tr":
            self.rows[self._cells[0]] = self._cells[1:]

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if {"td", "th"} & set(self.open):
            self._cells[-1] += data
        if self.alerts and "div" in self.open and "table" not in self.open:
            self.alerts[-1] += data

    @property
    def commands(self) -> list[list[str]]:
        """The commands for another run, split as a shell does."""
        return [
            shlex.split(text)
            for text in re.findall(r"^(?:flwr|curvfed) .*$", self._pre, re.MULTILINE)
        ]

    @property
    def _pre(self) -> str:
        return "\n".join(
            html.unescape(text) for text in re.findall(r"<pre>(.*?)</pre>", self.source, re.DOTALL)
        )


def check_stands_alone(page: Page) -> None:
    """Nothing is asked of the network, and what is pointed at is there, once."""
    assert not {"script", "iframe", "object", "img", "base"} & set(page.tags)
    assert not {name for name, _ in page.attributes if name.startswith("on")}
    places = ("src", "href", "xlink:href", "action", "data")
    targets = [value for name, value in page.attributes if name in places]
    targets += re.findall(r"url\(([^)]*)\)", page.source)
    assert all(target.startswith(("#", "data:")) for target in targets)
    assert "@import" not in page.source
    assert "://" not in page.source
    names = [value for name, value in page.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(names)


def titles(page: Page) -> list[str]:
    """What the pictures show, in order."""
    return [label.split(". ")[0] for label in page.labels]

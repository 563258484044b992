"""The figures of README.md and findings.md, read from the results in `docs/measured`.

`claims.toml` has every sentence and every row of a table with a figure, in which a reference stands
for each figure, and the command that makes the result. `python docs/claims.py` writes the page
`docs/measured/claims.md`; a test compares the pages with the claims.

A reference is {FILE#PATH#FORM}: a JSON file of `docs/measured` without its ending, the keys that
lead to a value, with `/` between, and one of `FORMS`. In a list a key is the beginning of the name
of an entry.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
MEASURED = DOCS / "measured"
PAGE = MEASURED / "claims.md"
REFERENCE = re.compile(r"\{([^{}#]+)#([^{}#]*)#(\w+)\}")
NAMES = ("method", "name", "what")
"""Keys of the name of an entry of a list."""

ABOUT = """\
# What the figures rest on

Every sentence and row of a table of [README](../../README.md) and [findings](../findings.md) that
has a figure, the command that makes its result, and the committed result. `python docs/claims.py`
writes this page from `docs/claims.toml`; a test holds the pages to it.
"""


@dataclass(frozen=True)
class Claim:
    """A sentence with figures.

    Attributes
    ----------
    page : str
        Its page, relative to the repository.
    text : str
        With references in place of figures.
    command : str
        It makes the results.
    """

    page: str
    text: str
    command: str

    @property
    def files(self) -> list[str]:
        """The results that the text refers to, relative to `docs/measured`."""
        return list(dict.fromkeys(name for name, _, _ in REFERENCE.findall(self.text)))

    @property
    def words(self) -> str:
        """The text with its figures, in a line."""
        filled = REFERENCE.sub(lambda match: figure(*match.groups()), self.text)
        return " ".join(filled.split())


def claims() -> list[Claim]:
    """All claims, in the order of the file."""
    stored = tomllib.loads((DOCS / "claims.toml").read_text(encoding="utf-8"))
    return [Claim(**entry) for entry in stored["claims"]]


@cache
def _result(name: str) -> Any:
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def figure(file: str, path: str, form: str) -> str:
    """The figure of a reference.

    Raises
    ------
    KeyError
        If the result has no such value.
    """
    value = _result(file)
    for key in filter(None, path.split("/")):
        value = _entry(value, key, file)
    return FORMS[form](value)


def _entry(value: Any, key: str, file: str) -> Any:
    if isinstance(value, Mapping):
        return value[key]
    for entry in value:
        if any(str(entry.get(name, "")).startswith(key) for name in NAMES):
            return entry
    raise KeyError(f"{file} has no entry {key}")


def _signed(value: float, digits: int = 1) -> str:
    """With a minus sign, and a plus sign above 0."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text.replace("+", "", 1) if not float(f"{value:.{digits}f}") else text


def _spread(entry: Mapping[str, Any]) -> str:
    """Mean and standard deviation of scores in percent."""
    return f"{100 * entry['mean']:.1f} ± {100 * entry['std']:.1f}"


def _interval(prefix: str) -> Callable[[Mapping[str, Any]], str]:
    """A difference in points with its interval."""
    low, high = ("low", "high") if prefix == "difference" else (f"{prefix}_low", f"{prefix}_high")

    def words(entry: Mapping[str, Any]) -> str:
        mean, first, last = (_signed(100 * entry[key]) for key in (prefix, low, high))
        return f"{mean} ({first} to {last})"

    return words


def _first_number(text: str) -> str:
    """The first number of a text."""
    match = re.search(r"[-−+]?\d+(\.\d+)?", text)
    if match is None:
        raise KeyError(f"no number in {text!r}")
    return match.group().replace("-", "−")


FORMS: dict[str, Callable[[Any], str]] = {
    "score": _spread,
    "percent": lambda value: f"{100 * value:.1f}",
    "curvature": _interval("curvature"),
    "use": _interval("use"),
    "difference": _interval("difference"),
    "text": str,
    "number": lambda value: f"{value:,}",
    "tenths": lambda value: f"{value:.1f}".replace("-", "−"),
    "hundredths": lambda value: f"{value:.2f}".replace("-", "−"),
    "points": lambda value: _signed(value),
    "whole": lambda value: f"{value:.0f}".replace("-", "−"),
    "first": _first_number,
}
"""By name, how a value is written."""


def page() -> str:
    """The page of all claims."""
    lines = [ABOUT, "| sentence or row | command | result |", "| --- | --- | --- |"]
    for claim in claims():
        results = ", ".join(f"[{name}]({name}.json)" for name in claim.files)
        words = claim.words.strip("| ").replace("|", "·")
        lines.append(f"| {words} | `{claim.command}` | {results} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")

"""README.md and findings.md, whose figures are read from committed results: python docs/make_pages.py

`templates/` has both pages, with a reference in place of each figure: {FILE#PATH#FORM}. FILE is a
JSON file of `docs/measured` without its ending, PATH the keys that lead to a value, with `/`
between, and FORM one of `FORMS`. In a list a key is the name of an entry. In {FILE#WORDS#quote},
FILE is any text file of the repository, and the words must be in it. A form of `QUESTIONS` writes
the difference of a method's scores to those of another, with an interval that is corrected for all
rows of its column. `measured/claims.csv` lists every sentence and row with a figure, the command
that makes its result, and the result.
"""

import csv
import io
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from curvfed.extensions.sweeps.commands.paired import paired_difference

DOCS = Path(__file__).parent
ROOT = DOCS.parent
MEASURED = DOCS / "measured"
TEMPLATES = DOCS / "templates"
PAGES = {"README.md.in": ROOT / "README.md", "findings.md.in": DOCS / "findings.md"}
"""By template, the page that is made from it."""

CLAIMS = MEASURED / "claims.csv"
WIDTH = 120
"""Characters of a line of a page."""

HIERARCHIES = "hierarchies"
"""The result with a table of hierarchies."""

QUESTIONS = ("is_it_the_curvature", "should_i_use_it")
"""Forms of references to a method whose intervals hold together over a column of a table."""

REFERENCE = re.compile(r"\{([^{}#]+)#([^{}#]*)#(\w+)\}")
SENTENCE_END = re.compile(r"(?<=[.?!:;])(?:\*\*)?\s+(?=[A-Z*`\[])")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
NAMES = ("method", "hierarchy", "name", "what")
"""Keys of the name of an entry of a list."""


def figure(file: str, path: str, form: str) -> str:
    """The figure of a reference.

    Raises
    ------
    KeyError
        If the result has no such value, or the file not these words.
    """
    if form == "quote":
        if path not in _text(file):
            raise KeyError(f"{file} has no {path!r}")
        return path
    return FORMS[form](_at(file, path))


def _at(file: str, path: str) -> Any:
    """The value of a result at a path."""
    value = _result(file)
    for key in filter(None, path.split("/")):
        value = _entry(value, key, file)
    return value


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def _result(name: str) -> Any:
    return json.loads(_text(f"docs/measured/{name}.json"))


def _entry(value: Any, key: str, file: str) -> Any:
    if isinstance(value, Mapping):
        return value[key]
    if key.isdigit():
        return value[int(key)]
    for entry in value:
        if key in [entry.get(name) for name in NAMES]:
            return entry
    raise KeyError(f"{file} has no entry {key}")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _signed(value: float) -> str:
    """With one digit, a minus sign, and a plus sign above 0."""
    text = f"{value:+.1f}"
    return text[1:] if text in ("+0.0", "-0.0") else _minus(text)


def _interval(values: Any) -> str:
    """A difference in points with the ends of its interval."""
    mean, low, high = map(_signed, values)
    return f"{mean} ({low} to {high})"


def _of_keys(*keys: str) -> Callable[[Mapping[str, Any]], str]:
    """An interval whose values have these keys, as fractions."""
    return lambda entry: _interval([100 * entry[key] for key in keys])


def _numbers(text: str, pattern: str = "") -> list[float]:
    """The numbers of a text, from a pattern on.

    Raises
    ------
    KeyError
        If there are none.
    """
    match = re.search(pattern, text)
    values = re.findall(r"[-−+]?\d*\.?\d+", text[match.end() :] if match else "")
    if not values:
        raise KeyError(f"no number after {pattern!r} in {text!r}")
    return [float(value.replace("−", "-")) for value in values]


def _ends(text: str) -> str:
    low, high = _numbers(text, "interval ")[:2]
    return f"{_signed(low)} to {_signed(high)}"


FORMS: dict[str, Callable[[Any], str]] = {
    "score": lambda entry: f"{100 * entry['mean']:.1f} ± {100 * entry['std']:.1f}",
    "percent": lambda value: f"{100 * value:.1f}",
    "share": lambda value: f"{100 * value:.0f}",
    "curvature": _of_keys("curvature", "curvature_low", "curvature_high"),
    "use": _of_keys("use", "use_low", "use_high"),
    "difference": _of_keys("difference", "low", "high"),
    "interval": _interval,
    "text": str,
    "number": lambda value: f"{value:,}",
    "tenths": lambda value: _minus(f"{value:.1f}"),
    "hundredths": lambda value: _minus(f"{value:.2f}"),
    "points": _signed,
    "whole": lambda value: _minus(f"{value:.0f}"),
    "p": lambda value: f"{value:.2g}",
    "first": lambda text: _minus(f"{_numbers(text)[0]:.1f}"),
    "last": lambda text: _minus(f"{_numbers(text)[-1]:.1f}"),
    "spread": lambda text: f"{_numbers(text, '±')[0]:.1f}",
    "ends": _ends,
}
"""By name, how a value is written."""


def rendered(text: str, number: int = 1) -> str:
    """A text with figures in place of its references.

    Parameters
    ----------
    text : str
    number : int
        See `difference`.
    """

    def written(match: re.Match[str]) -> str:
        file, path, form = match.groups()
        if form in QUESTIONS:
            return difference(file, path, form, number)
        return figure(file, path, form)

    return REFERENCE.sub(written, text)


def filled(block: str, number: int) -> str:
    """A block of a template with its figures; a paragraph or a list with references is filled
    anew."""
    text = rendered(block, number)
    if not REFERENCE.search(block) or not re.match(r"(?!\d+\. )[\w*`\[]", block):
        return text
    items = re.split(r"\n(?=\* )", text)
    return "\n".join(_filled_item(item) for item in items)


def _filled_item(text: str) -> str:
    """A paragraph, or an item of a list, whose further lines are indented."""
    indent = "  " if text.startswith("* ") else ""
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def compared(text: str) -> int:
    """The number of differences behind a column of a template's table, also those that it leaves
    out: all curved rows of the comparisons, and all hierarchies of the blocks that it shows; 0
    without such a column."""
    rows = [match for match in REFERENCE.findall(text) if match[2] == QUESTIONS[0]]
    if not rows:
        return 0
    blocks = {match[1].rpartition("/")[0] for match in rows if match[0] == HIERARCHIES}
    number = sum(len(_at(HIERARCHIES, block)) for block in blocks)
    for path in (MEASURED / "comparisons").glob("*.json"):
        methods = _result(f"comparisons/{path.stem}")["methods"]
        number += sum(bool(row["at_zero"] or row["control"]) for row in methods)
    return number


def difference(file: str, path: str, question: str, number: int) -> str:
    """The difference of a curved method to itself at curvature 0, or to the best flat method, and
    its interval.

    Parameters
    ----------
    file, path : str
        As in a reference, to the entry of the method, or of the hierarchy.
    question : str
        One of `QUESTIONS`.
    number : int
        The number of differences whose intervals are to hold together.

    Raises
    ------
    KeyError
        If the result has no such entry.
    """
    above, _, name = path.rpartition("/")
    siblings = _at(file, above)
    entry = _entry(siblings, name, file)
    if file == HIERARCHIES:
        methods = entry["methods"]
        others = {QUESTIONS[0]: "links at 0", QUESTIONS[1]: entry["best_flat"]}
        entry = methods["links"]
    else:
        methods = {method["method"]: method for method in siblings}
        rivals = [method for method in siblings if method["is_rival"]]
        best = max(rivals, key=lambda method: method["validation"])
        twin = entry["at_zero"] or entry["control"]
        others = {QUESTIONS[0]: twin, QUESTIONS[1]: best["method"]}
    other = methods[others[question]]
    mean, low, high, *_ = paired_difference(entry["scores"], other["scores"], number)
    return _interval([100 * mean, 100 * low, 100 * high])


@dataclass(frozen=True)
class Claim:
    """A sentence or row with figures.

    Attributes
    ----------
    page : str
    text : str
        With references.
    """

    page: str
    text: str

    @property
    def files(self) -> list[str]:
        """The results that it refers to."""
        return list(dict.fromkeys(match[0] for match in REFERENCE.findall(self.text)))


def claims(template: str, page: str) -> Iterator[Claim]:
    """The claims of a page: the rows and the sentences that have a reference."""
    for block in re.split(r"\n\s*\n|\n(?=[|*-] ?)", template):
        sentences = [block] if block.startswith("|") else SENTENCE_END.split(block)
        for sentence in sentences:
            if REFERENCE.search(sentence):
                yield Claim(page, " ".join(sentence.split()))


def command_of(file: str) -> str:
    """The command that makes a result.

    Raises
    ------
    KeyError
        If `templates/commands.toml` names none.
    """
    commands = tomllib.loads((TEMPLATES / "commands.toml").read_text(encoding="utf-8"))
    folder, _, name = file.rpartition("/")
    command: str = commands.get(file) or commands[f"{folder}/"]
    return command.format(name=name)


def claims_table() -> str:
    """The table of all claims, as CSV."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["page", "sentence or row", "command", "result"])
    for name, page in PAGES.items():
        template = (TEMPLATES / name).read_text(encoding="utf-8")
        number = compared(template)
        for claim in claims(template, page.name):
            words = LINK.sub(r"\1", rendered(claim.text, number)).strip("| ").replace("|", "·")
            commands = dict.fromkeys(command_of(file) for file in claim.files)
            writer.writerow([page.name, words, "; ".join(commands), "; ".join(claim.files)])
    return table.getvalue()


def pages() -> dict[Path, str]:
    """By path, the text of each page."""
    texts = {}
    for name, page in PAGES.items():
        template = (TEMPLATES / name).read_text(encoding="utf-8")
        number = compared(template)
        texts[page] = "\n\n".join(filled(block, number) for block in template.split("\n\n"))
    return {**texts, CLAIMS: claims_table()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")

"""Every item of the papers, and its state: `docs/measured/papers.csv`.

    python -m studies.papers.items

writes the numbers of items by paper and state into studies/README.md. An item is a definition, an
equation, a step of an algorithm, a theorem, a setting, an ablation, a table or a figure that shows
results. The states:

- right: the code does what the paper says, or what the errata say where the paper errs, and the
  test or study that checks it is named; a table or figure has the paper's data sets and settings;
- scaled: run on fewer data sets, in fewer rounds, with fewer seeds or with a smaller network;
- missing: not done;
- not possible: needs what the paper does not give, or hardware and data that cannot be had.
"""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "measured" / "papers.csv"
PAGE = ROOT / "studies" / "README.md"

STATES = ("right", "scaled", "missing", "not possible")
NAMES = {
    "flatland": "FlatLand",
    "hyperfed": "HyperFed",
    "spherefed": "SphereFed",
    "hull": "Convex hulls",
}
"""The papers' names on the page, by their names in the file."""

BEGIN = "<!-- python -m studies.papers.items -->\n"
END = "<!-- end of items -->\n"


class Item(NamedTuple):
    """A row of the file.

    Attributes
    ----------
    paper : str
        Of `NAMES`.
    item : str
        Its place in the paper, as "Eq. 7".
    what : str
    state : str
        Of `STATES`.
    where : str
        The file that implements or checks it.
    command : str
        What runs or checks it; empty if nothing does.
    note : str
        The reason, if it is not right.
    """

    paper: str
    item: str
    what: str
    state: str
    where: str
    command: str
    note: str


def read_items(path: Path = FILE) -> list[Item]:
    """The rows of the file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Item(**row) for row in csv.DictReader(file)]


def counts_table(items: Sequence[Item]) -> list[str]:
    """The numbers of items by paper and state, in lines of Markdown."""
    numbers = Counter((item.paper, item.state) for item in items)
    states = Counter(item.state for item in items)
    heads = ("paper", *STATES, "all")
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for paper, name in NAMES.items():
        mine = [numbers[paper, state] for state in STATES]
        lines.append(f"| {name} | {' | '.join(map(str, [*mine, sum(mine)]))} |")
    everywhere = [states[state] for state in STATES]
    lines.append(f"| all | {' | '.join(map(str, [*everywhere, len(items)]))} |")
    return lines


def section(items: Sequence[Item]) -> str:
    """The text between the marks of the page."""
    lines = ["", *counts_table(items), ""]
    for state in STATES[2:]:
        named = [f"{NAMES[item.paper]}, {item.item}" for item in items if item.state == state]
        if named:
            lines += [f"{state.capitalize()}: {'; '.join(named)}.", ""]
    return "\n".join(lines)


def page(text: str, items: Sequence[Item]) -> str:
    """The page with its section made anew."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + section(items) + END + after


def main() -> None:
    """Write the section of the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text, read_items()), encoding="utf-8")


if __name__ == "__main__":
    main()

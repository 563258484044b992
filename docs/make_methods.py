"""Write `docs/methods.md` and a page for each method's file in `docs/methods`.

make reference

A page begins with the text beside the method's file, `moon.md` beside `moon.py`, with links as they
are in `docs/methods`. The keys follow from the code.
"""

import importlib.util
from pathlib import Path
from typing import Any

from make_reference import TABLE, key_rows, tables_of_methods

from curvfed.strategies.base.keys import kebab
from curvfed.strategies.methods import files, listed

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "methods"
LIST = ROOT / "docs" / "methods.md"

HEAD = """\
# Methods

A page for each method: equation, source, what it sends and keeps, what a round costs, and its keys. `make reference`
writes this list; `curvfed methods METHOD` shows a method in the terminal. If a method has one model for all clients,
`aggregation` [replaces its own server step](reference/aggregations.md).

**Words of the pages**

* θ: shared parameters; v: a client's own parameters. k counts clients; n_k is the number of training examples of client
  k, and n = Σ n_k over the clients that answer. η is `learning-rate`, f_k the local loss.
* `*` matches any part of a parameter's name: `head.*` is the classifier, `body.*` the network before it in image models.
* **P** is the size of the model, **E** the work of `local-epochs` passes, d the number of features that a classifier
  reads, C the number of classes. A test compares what a client is sent, sends and keeps with recorded runs.
"""

LIST_TABLE = ["| method | what it does | data |", "| --- | --- | --- |"]


def extension_of(file: str) -> str:
    """The extension of a method's file, or "" for the core."""
    parts = files()[file].split(".")
    return parts[2] if parts[1] == "extensions" else ""


def text_of(file: str) -> str:
    """The text beside a method's file; without one a title and the rows' summaries."""
    spec: Any = importlib.util.find_spec(files()[file])
    origin = Path(spec.origin)
    beside = origin.parent if origin.name == "__init__.py" else origin
    path = beside.with_suffix(".md")
    if path.is_file():
        return path.read_text(encoding="utf-8")
    rows = [f"* `{name}`: {row.summary}" for name, row in rows_of(file).items()]
    return "\n".join([f"# {kebab(file)}", "", *rows]) + "\n"


def rows_of(file: str) -> dict[str, Any]:
    """The listed rows of a file."""
    return {name: row for name, row in listed().items() if row.file == file}


def keys_of(file: str) -> list[str]:
    """The section with the keys of a file's methods; none without keys of their own."""
    rows: list[str] = []
    for table, name in tables_of_methods().items():
        if name == kebab(file):
            rows += key_rows(table)
    return ["", "## Keys", "", *TABLE, *rows] if rows else []


def page(file: str) -> str:
    """The page of a method's file."""
    extension = extension_of(file)
    lines = [text_of(file).rstrip("\n"), *keys_of(file)]
    if extension:
        lines += ["", f"*In the extension `{extension}`.*"]
    return "\n".join(lines) + "\n"


def contents() -> str:
    """The list of all methods: those of the core first, then by extension."""
    parts = [HEAD]
    for extension in sorted({extension_of(file) for file in files()}):
        title = f"## Extension `{extension}`" if extension else "## Core"
        lines = [title, "", *LIST_TABLE]
        for file in files():
            if extension_of(file) == extension:
                lines += [_line(file, name, row) for name, row in rows_of(file).items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(file: str, name: str, row: Any) -> str:
    """The line of a method in the list."""
    summary = row.summary.replace("|", "\\|")
    return f"| [`{name}`](methods/{kebab(file)}.md) | {summary} | {', '.join(row.tasks)} |"


def pages() -> dict[Path, str]:
    """All pages that this program writes, by path."""
    made = {PAGES / f"{kebab(file)}.md": page(file) for file in files()}
    return {LIST: contents(), **made}


if __name__ == "__main__":
    made = pages()
    for path in PAGES.glob("*.md"):
        if path not in made:
            path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    print(LIST, PAGES)

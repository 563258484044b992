"""The picture of docs/developing.md, the rooms of the core and the extensions with their sizes:
python docs/images/make_rooms.py

A size is the number of nodes of the syntax trees, without docstrings and tests. The sentence beside
a room is the first of its docstring.
"""

import ast
from pathlib import Path

from matplotlib.figure import Figure

from curvfed.extensions.reports.svg_files import svg_file
from curvfed.server_app.report import style
from curvfed.tasks.plugins import TESTS
from curvfed.tasks.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_name("rooms.svg")
CORE = (
    "curvfed",
    "deployments",
    "server_app",
    "client_app",
    "strategies",
    "tasks",
    "geometry",
)
"""The rooms of the core; each imports those below it, and the two apps not each other."""

LONGEST = 92
"""Letters of a sentence in the picture."""


def size(folder: Path) -> int:
    """The number of syntax nodes of the modules below a folder, without docstrings and tests."""
    total = 0
    for path in folder.rglob("*.py"):
        if TESTS in path.relative_to(folder).parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        total += sum(not isinstance(node, ast.expr_context) for node in ast.walk(tree))
        total -= 2 * docstrings(tree)
    return total


def docstrings(tree: ast.Module) -> int:
    """The number of bare strings in a module, each an expression and a constant."""
    return sum(
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for node in ast.walk(tree)
    )


def sentence(folder: Path) -> str:
    """The first line of the docstring of a package, cut to the length that fits."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    text = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ").replace("`", "")
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST].rpartition(" ")[0] + " …"


def draw() -> Figure:
    """Bars of the extensions by size, and below them the core in the order of its imports."""
    sizes = {name: size(ROOT / "extensions" / name) for name in SHIPPED}
    extensions = sorted(SHIPPED, key=lambda name: -sizes[name])
    core = {name: size(ROOT / name) for name in CORE}
    count = len(extensions) + len(core)
    figure = Figure(figsize=(9.2, 0.34 * (count + 4)), layout="none")
    axes = figure.add_axes((0.14, 0.02, 0.85, 0.94))
    scale = max(*sizes.values(), *core.values())
    place = 0.0
    for title, rows, folder, colour in (
        (f"extensions: {sum(sizes.values()):,} nodes", extensions, "extensions", style.OTHER),
        (f"core: {sum(core.values()):,} nodes, imports run down", CORE, "", style.MEAN),
    ):
        axes.text(0, place, title, weight="bold", color=style.INK, va="center", fontsize=10)
        for name in rows:
            place -= 1
            nodes = sizes[name] if folder else core[name]
            axes.barh(place, nodes, height=0.72, color=colour, alpha=0.85)
            axes.text(-0.01 * scale, place, name, ha="right", va="center", fontsize=9)
            words = f"{nodes:,}   {sentence(ROOT / folder / name)}"
            axes.text(nodes + 0.01 * scale, place, words, va="center", fontsize=8, color=style.SOFT)
        place -= 1.4
    axes.set(xlim=(0, 3.0 * scale), ylim=(place + 0.7, 0.7))
    axes.axis("off")
    return figure


if __name__ == "__main__":
    with style.applied():
        picture = svg_file(draw(), PICTURE.stem)
    PICTURE.write_text(picture, encoding="utf-8")
    print(PICTURE)

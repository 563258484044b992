"""The site of these pages, made by `make docs`."""

import os
import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project, author = "curvfed", "the authors of curvfed"
version = release = version_of("curvfed")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
extensions += ["sphinx-mathjax-offline"]  # MathJax is a part of the site
exclude_patterns = ["README.md"]  # a part of index.md
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
default_role = "code"

autodoc_typehints = "none"  # signatures have them
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
napoleon_google_docstring, napoleon_use_ivar = False, True

html_theme, html_title, html_copy_source = "furo", f"curvfed {release}", False
html_static_path, html_css_files, html_show_copyright = ["static"], ["site.css"], False

PAGES = Path(__file__).parent.resolve()
_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def _name_files(text: str, folder: Path, page_folder: Path) -> str:
    """Links of a file in `folder`, as they are in a page in `page_folder`: files that are no pages
    become their paths."""

    def target_or_path(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(PAGES):
            return f"[{link[1]}]({os.path.relpath(target, page_folder)}{link[3] or ''})"
        name = str(target.relative_to(PAGES.parent))
        return f"`{name}`" if link[1].strip("`") == name else f"{link[1]} (`{name}`)"

    return _LINK.sub(target_or_path, text)


def _read_page(_: Sphinx, page: str, source: list[str]) -> None:
    folder = (PAGES / page).parent
    source[0] = _name_files(source[0], folder, folder)


def _read_part(_: Sphinx, path: Path, _page: str, source: list[str]) -> None:
    """The parts are those of the first page, which lies in the folder of pages."""
    source[0] = _name_files(source[0], (PAGES / path).resolve().parent, PAGES)


def _keep_bars(
    _app: Sphinx, _what: str, _name: str, _of: Any, _options: Any, lines: list[str]
) -> None:
    """|c| in a docstring is an absolute value."""
    lines[:] = [line if ">>>" in line else line.replace("|", r"\|") for line in lines]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_part)
    app.connect("autodoc-process-docstring", _keep_bars, priority=400)

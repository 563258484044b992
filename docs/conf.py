"""The site of these pages, made by `make docs`."""

import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project, author = "curvfed", "the authors of curvfed"
version = release = version_of("curvfed")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
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

_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)[^)]*\)")


def _name_files(_: Sphinx, page: str, source: list[str]) -> None:
    """Links to files of the repository that are no pages become their paths."""
    pages = Path(__file__).parent.resolve()

    def path(link: re.Match[str]) -> str:
        target = (pages / page).parent.joinpath(link[2]).resolve()
        if target.is_relative_to(pages):
            return link[0]
        name = str(target.relative_to(pages.parent))
        return f"`{name}`" if link[1].strip("`") == name else f"{link[1]} (`{name}`)"

    source[0] = _LINK.sub(path, source[0])


def _keep_bars(_app: Sphinx, _what: str, _name: str, _of: Any, _options: Any, lines: list[str]) -> None:
    """|c| in a docstring is an absolute value."""
    lines[:] = [line if ">>>" in line else line.replace("|", r"\|") for line in lines]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _name_files)
    app.connect("autodoc-process-docstring", _keep_bars, priority=400)

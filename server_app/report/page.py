"""The builder of pages, of one run and of many: what ran and what came of it, warnings, pictures,
tables, and last the configuration."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from curvfed.server_app.report import style
from curvfed.server_app.report.table import Table
from curvfed.server_app.report.templates import render


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes
    ----------
    figure : matplotlib Figure
        Made within `style.applied`.
    title : str
        What it shows; unique in its page.
    caption : str
    files : sequence of Path
        Where it is saved, if it is: PNG and SVG.
    """

    figure: Any
    title: str
    caption: str
    files: Sequence[Path] = ()

    def saved(self, stem: Path, pdf: bool = False) -> "Picture":
        """Save it as `stem`.png and `stem`.svg on white paper, and as `stem`.pdf too if asked."""
        return replace(self, files=style.save(self.figure, stem, pdf))

    @property
    def html(self) -> Markup:
        """The element: in the page's own colours, or a saved file as it is."""
        text = f"{self.title}. {self.caption}"
        if self.files:
            data = base64.b64encode(self.files[1].read_bytes()).decode()
            return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(text, data)
        return Markup('<svg role="img" aria-label="{}" {}</svg>').format(
            text, style.to_svg(self.figure, self.title)
        )


@dataclass(frozen=True)
class Page:
    """The content of a page.

    Attributes
    ----------
    title : str
    words : sequence of str
        Paragraphs: what it is about, and what came of it.
    notes : sequence of str
        Warnings.
    pictures : sequence of Picture
    tables : sequence of Table
    csv : sequence of str
        Tables unrounded.
    about : sequence of (class, text)
        How the run ended, and how large it was.
    headline : Table or None
        What it reached, beside what others reach.
    error : str
        Why it failed.
    commands : mapping of str to str
        What repeats it, by what they do.
    configuration : Table or None
        Shown folded, at the end.
    versions : mapping of str to str
    """

    title: str
    words: Sequence[str]
    notes: Sequence[str]
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    csv: Sequence[str] = ()
    about: Sequence[tuple[str, str]] = ()
    headline: Table | None = None
    error: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Table | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def html_page(page: Page) -> str:
    """Write the page as one HTML file that needs nothing else."""
    return render("page.html.md", page=page)


def markdown_page(page: Page, folder: Path, level: int = 1) -> str:
    """Write the page as Markdown for a file in this folder, beside which its pictures are saved."""
    places = [picture.files[0].relative_to(folder).as_posix() for picture in page.pictures]
    return render("page.md", page=page, level=level, places=places).rstrip() + "\n"

"""Figures as files of their own, in the colours of the reader's screen."""

from typing import Any

from curvfed.server_app.report.style import LARGE, VARIABLES, to_svg


def svg_file(figure: Any, name: str) -> str:
    """Render a figure as a file in the colours of the reader's screen, light or dark."""
    light = ";".join(f"--{variable}:{colour}" for variable, colour, _ in VARIABLES)
    dark = ";".join(f"--{variable}:{colour}" for variable, _, colour in VARIABLES)
    rules = (
        f":root{{{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "svg{background:var(--paper);stroke-linejoin:round;stroke-linecap:butt}"
    )
    view_box, content = to_svg(figure, name, LARGE).split(">", 1)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view_box}>'
    return f"{head}<style>{rules}</style>{content}</svg>\n"

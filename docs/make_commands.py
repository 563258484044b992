"""Write `docs/commands.md`: what `--help` says of every command, by Typer's own writer.

make reference
"""

import html
import re
from pathlib import Path

from typer.cli import get_docs_for_click
from typer.main import get_command

PAGE = Path(__file__).parent / "commands.md"
HEAD = """\
# Commands

Every command with its options, as `--help` shows them. `make reference` writes this page.
"""
COMPLETION = re.compile(r"^\* `--(?:help|install-completion|show-completion)`.*\n", re.MULTILINE)
PANEL = re.compile(r"<span[^>]*>([^<]*)</span>")
EXAMPLES = re.compile(r"(?:^curvfed .*\n)+", re.MULTILINE)


def page() -> str:
    """The text of the page: a heading for each command, its examples in blocks."""
    import click

    from curvfed.deployments.commands.command import app

    command = get_command(app)
    text = get_docs_for_click(
        obj=command, ctx=click.Context(command, info_name="curvfed"), name="curvfed"
    )
    text = PANEL.sub(r"**\1**", text)
    body = html.unescape(COMPLETION.sub("", text.partition("**Commands**")[2]))
    body = body[body.index("## `curvfed") :]
    return HEAD + "\n" + EXAMPLES.sub(lambda match: f"```sh\n{match[0]}```\n", body).strip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)

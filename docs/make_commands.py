"""Write `docs/commands.md` and a page for each command in `docs/commands`: what `--help` says, by
Typer's own writer.

make reference
"""

import html
import re
from pathlib import Path

import click
from typer.cli import get_docs_for_click
from typer.main import get_command

from curvfed.deployments.commands.command import app

LIST = Path(__file__).parent / "commands.md"
PAGES = Path(__file__).parent / "commands"
HEAD = """\
# Commands

`curvfed COMMAND --help` shows the same in the terminal. `make reference` writes these pages.

| command | what it does |
| --- | --- |
"""
COMPLETION = re.compile(r"^\* `--(?:help|install-completion|show-completion)`.*\n", re.MULTILINE)
PANEL = re.compile(r"<span[^>]*>([^<]*)</span>")
EXAMPLES = re.compile(r"(?:^curvfed .*\n)+", re.MULTILINE)


def text_of(name: str, command: click.Command, context: click.Context) -> str:
    """The text of a command's page, its examples in blocks."""
    text = get_docs_for_click(obj=command, ctx=context, name=name)
    text = html.unescape(COMPLETION.sub("", PANEL.sub(r"**\1**", text)))
    return EXAMPLES.sub(lambda match: f"```sh\n{match[0]}```\n", text).strip() + "\n"


def pages() -> dict[Path, str]:
    """The list of commands and the page of each, by path."""
    group = get_command(app)
    assert isinstance(group, click.Group)
    context = click.Context(group, info_name="curvfed")
    made: dict[Path, str] = {}
    lines = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        made[PAGES / f"{name}.md"] = text_of(f"curvfed {name}", command, context)
        summary = command.get_short_help_str(limit=200)
        lines.append(f"| [`curvfed {name}`](commands/{name}.md) | {summary} |")
    return {LIST: HEAD + "\n".join(lines) + "\n", **made}


if __name__ == "__main__":
    made = pages()
    for path in PAGES.glob("*.md"):
        if path not in made:
            path.unlink()
    PAGES.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    print(LIST, PAGES)

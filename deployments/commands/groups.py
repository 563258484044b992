"""Groups of commands, whose errors say what an unknown word may have been meant for."""

import re
from typing import Any

import click
from typer.core import TyperGroup

from curvfed.deployments.pairs import UsageError


class Commands(TyperGroup):
    """Commands that take keys as words without dashes."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Name all commands in the error for a word that is none."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            names = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"{error.message} The commands are {names}.", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Show how a key is written in the error for one that was written as an option.

        Raises
        ------
        UsageError
        """
        words = " ".join(ctx.args)
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            command = error.ctx.command if error.ctx else self
            takes_keys = any(parameter.name == "pairs" for parameter in command.params)
            if error.possibilities or not takes_keys:
                raise
            from curvfed.strategies.config.all_keys import defaults, nearest_key

            option = error.option_name
            key = nearest_key(option.strip("-"), [*defaults(), "num-supernodes"])
            if not key:
                raise
            value = re.search(rf"{re.escape(option)}[ =]([^-\s]\S*)", words)
            pair = f"{key}={value[1] if value else 'VALUE'}"
            raise UsageError(f"there is no option {option}; keys have no dashes. Did you mean {pair}?") from None

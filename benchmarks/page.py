"""The table of docs/benchmarks.md, between its two marks, from what was measured."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curvfed.tasks.atomic_file import write_atomically

BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
HEADS = ("what", "against", "ratio", "goal", "range", "ours, s", "theirs, s", "ours, MB", "theirs, MB")


class PageError(ValueError):
    """A page without the two marks."""


def write_table(
    page: Path, figures: Sequence[Mapping[str, Any]], errors: Sequence[Mapping[str, Any]], machine: str
) -> None:
    """Put the tables of seconds and of errors in place of those before.

    Raises
    ------
    PageError
        As `around`; the page is left as it was.
    """
    before, after = around(page)
    write_atomically(page, f"{before}{BEGIN}\n{machine}\n\n{table(figures)}{error_table(errors)}{END}{after}".encode())


def around(page: Path) -> tuple[str, str]:
    """What stands before and after the tables.

    Raises
    ------
    PageError
        If the page cannot be read, lacks a mark, or they are in the wrong order.
    """
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise PageError(f"{page} cannot be read: {error.strerror}") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise PageError(f"{page} has no lines {BEGIN} and {END} to put the table between")
    return before, after


def table(figures: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, a heading row for every part; a row that failed says why."""
    lines, part = [], None
    for one in figures:
        if one["part"] != part:
            part = one["part"]
            lines += ["", f"**{part}**", "", "| " + " | ".join(HEADS) + " |", "| --- " * len(HEADS) + "|"]
        lines.append("| " + " | ".join(_cells(one)) + " |")
    return "\n".join(lines).lstrip() + "\n\n"


def error_table(errors: Sequence[Mapping[str, Any]]) -> str:
    """Markdown of the operations' errors, in the units of `benchmarks.operations.Spread`; nothing without any."""
    if not errors:
        return ""
    lines = [
        "**errors of the operations**, ours / theirs, in units of eps", "",
        "| what | dtype | against | largest by its condition | largest | median | not finite |", "| --- " * 7 + "|",
    ]  # fmt: skip
    for one in errors:
        ours, theirs = one["ours"], one["theirs"]
        pairs = [f"{ours[key]:.2g} / {theirs[key]:.2g}" for key in ("conditioned", "largest", "median")]
        lines.append(
            "| "
            + " | ".join([one["what"], one["dtype"], one["against"], *pairs, f"{ours['bad']} / {theirs['bad']}"])
            + " |"
        )
    return "\n".join(lines) + "\n\n"


def _cells(one: Mapping[str, Any]) -> list[str]:
    if "error" in one:
        return [one["what"], one["against"], f"failed: {one['error']}", *[""] * 6]
    goal = "" if one["goal"] is None else f"≤ {one['goal']:g}, {'met' if one['met'] else '**missed**'}"
    seconds = [f"{one[key]:.3g}" for key in ("ours", "theirs")]
    memory = [megabytes(one[key]) for key in ("ours_bytes", "theirs_bytes")]
    spread = f"{one['low']:.3g}–{one['high']:.3g}"
    return [one["what"], one["against"], f"{one['ratio']:.3g}", goal, spread, *seconds, *memory]


def megabytes(value: int | None) -> str:
    """Of memory, whole ones: less is not told from what the allocator does."""
    if value is None:
        return ""
    return f"{value / 1e6:.0f}" if value >= 1e6 else "< 1"

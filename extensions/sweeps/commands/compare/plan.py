"""The plan of a comparison: its file, which refuses another comparison in the same folder, and the
lines that are printed before the runs."""

import json
from collections.abc import Sequence
from pathlib import Path

from curvfed.deployments.arguments import NOTE, UsageError
from curvfed.extensions.sweeps.commands.compare import OWN_KEYS
from curvfed.extensions.sweeps.commands.compare.request import Comparison
from curvfed.extensions.sweeps.commands.compare.tuning import Size
from curvfed.extensions.sweeps.commands.paired import MIN_PAIRS
from curvfed.tasks.stored_files import write_atomically


def check_plan(path: Path, text: str) -> None:
    """Write the plan, or compare it with the existing one.

    Raises
    ------
    UsageError
        If the existing plan differs; names the first key that differs.
    """
    if not path.exists():
        write_atomically(path, text.encode())
    try:
        existing = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}); name another folder by --results",
            key="unreadable",
        ) from None
    plan = json.loads(text)
    for key in {**existing, **plan}:
        old = existing.get(key)
        if old != plan.get(key):
            raise UsageError(
                f"{path.parent} holds a comparison with {key} ="
                f" {json.dumps(existing.get(key, 'auto'))}, not"
                f" {json.dumps(plan.get(key, 'auto'))}; name another folder by --results",
                key="other-comparison",
            )


def first_lines(comparison: Comparison, sizes: Sequence[Size]) -> list[str]:
    """The numbers of runs, and a note on seeds that are too few for intervals.

    Parameters
    ----------
    comparison : Comparison
    sizes : sequence of Size
        The runs for the choice of each entrant's configuration.
    """
    seeds = comparison.numbers["seeds"]
    compared = len(sizes) * seeds
    expected = sum(size.expected for size in sizes) + compared
    most = sum(size.most for size in sizes) + compared
    number = f"{most} runs"
    reason = ""
    if expected < most:
        number = f"about {expected} runs, at most {most}"
        reason = (
            ". The number depends on the scores: a method tries further learning rates and decays"
            " while its best lies at the edge"
        )
    lines = [
        f"{comparison.data}: {', '.join(comparison.entrants)}",
        f"{number}: {compared} compare these {len(sizes)} on {seeds} seeds, the others choose their"
        f" keys by validation on {comparison.numbers['tuning-seeds']}{reason}",
        *comparison.notes,
    ]
    if seeds < MIN_PAIRS:
        lines.append(
            f"{NOTE}seeds = {seeds} gives no intervals, without which a difference may be luck;"
            f" allowed from seeds = {MIN_PAIRS} on, and {OWN_KEYS['seeds']} by default"
        )
    return lines

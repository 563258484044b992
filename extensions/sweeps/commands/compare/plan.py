"""The plan of a comparison: its file, which refuses another comparison in the same folder but for
the number of seeds, and the lines that are printed before the runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curvfed.deployments.arguments import NOTE, UsageError
from curvfed.extensions.sweeps.commands.compare import OWN_KEYS
from curvfed.extensions.sweeps.commands.compare.comparison import Comparison
from curvfed.extensions.sweeps.commands.compare.tuning import Size
from curvfed.extensions.sweeps.commands.paired import MIN_PAIRS
from curvfed.tasks.amounts import amount
from curvfed.tasks.stored_files import write_atomically

SEEDS = "seeds"
"""The key of a plan that may change: the first seeds stay the same, and so do their runs."""

MANY_RUNS = 40
FEW_RUNS = "budget=1 tuning-seeds=1 seeds=3"
"""The number of runs from which on a comparison is long, and keys with which it is shorter."""

EARLIER = "earlier-seeds"
"""The numbers of seeds with which the results of a comparison were written before."""


def identity(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a plan that a folder's comparison keeps."""
    return {key: value for key, value in plan.items() if key not in (SEEDS, EARLIER)}


def check_plan(folder: Path, plan: Mapping[str, Any]) -> list[int]:
    """Write the plan, or compare it with the existing one, which may have other seeds.

    Returns
    -------
    list of int
        The other numbers of seeds with which results were written before.

    Raises
    ------
    UsageError
        If the existing plan differs; names the first key that differs.
    """
    path = folder / "plan.json"
    earlier: list[int] = []
    if path.exists():
        existing = _read_plan(path)
        _check_same(folder, identity(existing), identity(plan))
        earlier = [*existing.get(EARLIER, []), *_compared_seeds(folder)]
        earlier = sorted(set(earlier) - {plan[SEEDS]})
    content = json.dumps({**plan, EARLIER: earlier}, indent=1)
    write_atomically(path, content.encode())
    return earlier


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}); name another folder by --results",
            key="unreadable",
        ) from None


def _compared_seeds(folder: Path) -> list[int]:
    """The number of seeds of the results in a folder, if there are any."""
    path = folder / "comparison.json"
    if not path.exists():
        return []
    return [int(json.loads(path.read_text(encoding="utf-8"))["plan"][SEEDS])]


def _check_same(folder: Path, existing: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    """Refuse a plan that differs from the existing one, both without their seeds."""
    # As the existing one was read.
    plan = json.loads(json.dumps(plan))
    for key in {**existing, **plan}:
        old = existing.get(key)
        if old != plan.get(key):
            raise UsageError(
                f"{folder} holds a comparison with {key} ="
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
        f"{number}: {compared} compare these {len(sizes)} on {amount(seeds, 'seed')}, the others"
        f" choose their keys by validation on {comparison.numbers['tuning-seeds']}{reason}",
        *comparison.notes,
    ]
    if expected > MANY_RUNS and comparison.numbers["budget"] > 1:
        lines.append(f"for a first answer from fewer runs, add {FEW_RUNS}")
    if seeds < MIN_PAIRS:
        lines.append(
            f"{NOTE}seeds = {seeds} gives no intervals, without which a difference may be luck;"
            f" allowed from seeds = {MIN_PAIRS} on, and {OWN_KEYS['seeds']} by default"
        )
    return lines

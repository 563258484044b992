"""Waiting for members of groups that are away: a group sums with all its members or not at all."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from curvfed.server_app.answer import Answer
from curvfed.server_app.federation import nodes_back
from curvfed.server_app.run import PHASE_SILENCE, Run
from curvfed.server_app.secure.groups import Group
from curvfed.strategies.wire.messages import Header

FIRST_PAUSE = 1.0
LAST_PAUSE = 30.0
"""Shortest and longest pause between two looks for nodes that are away, in seconds."""


def ask_patiently(
    run: Run,
    header: Header,
    of_groups: Iterable[Group],
    ask: Callable[[Sequence[int]], Answer],
) -> Answer:
    """Ask the members of groups, and those that are away again once they are back.

    Nobody is asked later than `secure.patience` seconds after the first answer; the last request
    can take `round-timeout` more.
    """
    every_group = list(of_groups)
    answer = ask([member for group in every_group for member in group])
    deadline = time.monotonic() + run.config.secure.patience
    pause = FIRST_PAUSE
    while away := _away(answer, every_group):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        text = f"{header.phase}: waiting for partitions {away}, up to {left:.0f} s more"
        run.progress.say(header.round, text, PHASE_SILENCE)
        time.sleep(min(pause, left))
        pause = min(2 * pause, LAST_PAUSE)
        back = nodes_back(run.grid, run.config, header.run, run.federation, away)
        if back:
            nodes = dict(sorted((run.federation.nodes | back).items()))
            run.federation = replace(run.federation, nodes=nodes)
            answer = answer.joined(ask(sorted(back)))
    return answer


def _away(answer: Answer, every_group: Iterable[Group]) -> list[int]:
    """The members that are away, of groups in which nobody failed for another reason."""
    away: list[int] = []
    for group in every_group:
        missing = {member for member in group if member not in answer.replies}
        if missing <= answer.away:
            away += sorted(missing)
    return away

"""Warnings of single clients, from the notes of a run about them."""

from collections.abc import Callable
from typing import Any

from curvfed.extensions.warnings.data_warnings import some
from curvfed.server_app.client_history import ADVICE, FALL, fall_text, lost_text
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.strategies.base.aggregation import BOUND
from curvfed.tasks.amounts import amount


def _long_updates(state: State, federation: Federation) -> str:
    """The clients with updates that are long in most rounds or beyond every honest length, the
    longest first: a small client's update is long now and then."""
    ordered = sorted(state.long_updates.items(), key=lambda item: (-item[1]["length"], item[0]))
    texts = []
    for partition, record in ordered:
        rounds = int(record["rounds"])
        length = record["length"]
        if 2 * rounds > state.train_requests.get(partition, 0) or length > BOUND:
            times = f"up to {length:.3g} times"
            texts.append(f"client {partition} in {amount(rounds, 'round')}, {times}")
    if not texts:
        return ""
    return (
        "clients sent updates that are far longer than the median of their round:"
        f" {some(texts)}; they may be false, and what follows in other clients their effect"
    )


def _falls(state: State, federation: Federation) -> str:
    """The clients that fell, with the rounds."""
    courses = sorted(state.courses.items())
    fallen = {partition: course for partition, course in courses if "round" in course}
    num_clients = len(federation.nodes)
    texts = [
        fall_text(partition, course)
        + (f", back in round {course['back']}" if course["back"] else ", not back")
        for partition, course in fallen.items()
    ]
    back = sum(bool(course["back"]) for course in fallen.values())
    return (
        f"{len(fallen)} of {amount(num_clients, 'client')} fell by more than {100 * FALL:.0f}"
        f" points from one of their rounds to the next, and {back} came back"
        f" ({some(texts)}): {ADVICE}"
    )


def _absences(state: State, federation: Federation) -> str:
    """The absent clients with their numbers of rounds, the largest first."""
    ordered = sorted(state.absences.items(), key=lambda item: (-item[1]["rounds"], item[0]))
    texts = [
        f"{federation.label(partition, 'client')} in {absence['rounds']} of"
        f" {state.train_requests[partition]} ({absence['reason']})"
        for partition, absence in ordered
    ]
    return f"clients were out in rounds in which they were asked to train: {some(texts)}"


def _losses(state: State, federation: Federation) -> str:
    """The losses of personal parameters."""
    losses = sorted(state.lost.items())
    return "; ".join(lost_text(partition, loss) for partition, loss in losses)


OF_CLIENTS: tuple[tuple[str, Callable[[State], Any], Callable[[State, Federation], str]], ...] = (
    ("updates", lambda state: state.long_updates, _long_updates),
    ("falls", lambda state: any("round" in own for own in state.courses.values()), _falls),
    ("absences", lambda state: state.absences, _absences),
    ("lost", lambda state: state.lost, _losses),
)
"""The warnings of the clients' histories: the key, whether there is one, and its sentence."""

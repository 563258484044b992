"""A run's notes about its clients by round: steps, losses, falls, absences and lost state."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curvfed.server_app.answer import Answer
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation
from curvfed.strategies.run_log import log

FALL = 0.3
BACK = 0.05
"""A client falls if its accuracy drops by more than FALL between two of its rounds, and recovers
once it is within BACK of the old value."""

FEW = 10
"""Minimum number of test examples of a fall; with fewer it may be chance."""

ADVICE = "local training can undo what a model knows; a lower learning-rate makes its steps smaller"


def note_training(
    state: State, clients: Iterable[int], answer: Answer, federation: Federation
) -> None:
    """Update the state with the steps, losses and accuracies of a training phase, and with the
    clients that were asked to train and sent no valid reply; log each client's first fall.

    Parameters
    ----------
    state : State
        Changed are `most_steps`, `largest_loss`, `courses`, `train_requests` and `absences`.
    clients : iterable of int
        The partitions that were asked.
    """
    for partition in clients:
        state.train_requests[partition] = state.train_requests.get(partition, 0) + 1
        if partition not in answer.replies:
            absence = state.absences.get(partition, {"rounds": 0})
            reason = answer.reasons.get(partition, "it dropped out of the secure sum")
            state.absences[partition] = {"rounds": absence["rounds"] + 1, "reason": reason}
    name = "score" if federation.metric == "accuracy" else "accuracy"
    metrics = {partition: reply.metrics for partition, reply in answer.replies.items()}
    losses = [scores["loss"] for scores in metrics.values() if "loss" in scores]
    state.largest_loss = max(losses, default=(answer.cohort or {}).get("loss", (0.0, 0))[0])
    for partition, scores in metrics.items():
        state.most_steps = max(state.most_steps, int(scores.get("steps", 0)))
        if (
            name not in scores
            or federation.descriptions[partition].statistics.get("num_test", FEW) < FEW
        ):
            continue
        accuracy = scores[name]
        course = state.courses.setdefault(partition, {"last": scores[name]})
        previous = course["last"]
        course["last"] = accuracy
        if previous - accuracy > FALL:
            if "round" not in course:
                course |= {"round": answer.header.round, "from": previous, "to": accuracy}
                log.warning("%s: %s", fall_text(partition, course), ADVICE)
            course["back"] = None
        elif "round" in course and not course["back"] and accuracy >= course["from"] - BACK:
            course["back"] = answer.header.round


def note_lost(state: State, partition: int, restored: int) -> None:
    """Record and log that a client lost its personal parameters, and the round it restored."""
    loss = {"round": state.stamps.get(partition, 0), "from": restored}
    if loss != state.lost.get(partition):
        state.lost[partition] = loss
        log.warning("%s", lost_text(partition, loss))


def note_answers(state: State, confusions: Mapping[int, Sequence[int]], metric: str) -> None:
    """Record whether every model predicts a single class, by the clients' confusion counts.

    With skewed labels this may be the best answer of some clients, so one client with a model that
    predicts two classes suppresses the warning.
    """
    answered = [counts for counts in confusions.values() if sum(counts[2::3]) >= FEW]
    answers = [set(counts[1::3]) for counts in answered]
    is_mixed = any(len(set(counts[::3])) > 1 for counts in answered)
    # Only accuracy depends on the predicted class; -1 is no prediction.
    state.one_answer = (
        metric == "accuracy"
        and is_mixed
        and all(len(classes) == 1 and -1 not in classes for classes in answers)
    )


def mostly_absent(state: State) -> list[int]:
    """The clients without a valid reply in more than half of the rounds that asked them to
    train."""
    return [
        partition
        for partition, absence in sorted(state.absences.items())
        if 2 * absence["rounds"] > state.train_requests[partition]
    ]


def lost_text(partition: int, loss: Mapping[str, Any]) -> str:
    """A sentence about a loss of personal parameters, without its full stop."""
    since = f"went on from those of round {loss['from']}" if loss["from"] else "started afresh"
    return f"client {partition} lost its personal parameters of round {loss['round']} and {since}"


def fall_text(partition: int, course: Mapping[str, Any]) -> str:
    """A sentence about a fall, without its full stop."""
    return (
        f"client {partition} fell from {course['from']:.1%} to {course['to']:.1%} in round"
        f" {course['round']}"
    )

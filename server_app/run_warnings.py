"""Warnings of a run: why its figures may mislead, and what to do, each in one sentence.

They use what the server has: the clients' descriptions, their replies after training, and their
confusion counts where they send them. The log has each once; `summary.json` and the report have
all.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from curvfed.server_app.answer import Answer
from curvfed.server_app.class_warnings import crowded, of_one_client, unlabelled
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation, grouped
from curvfed.server_app.personal_figures import personal_figures
from curvfed.strategies.base.figures import PERSONAL_ACCURACY
from curvfed.strategies.base.keys import ProximalTerm
from curvfed.strategies.base.robust import BOUND
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import fields
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.examples import FAR_FEATURES
from curvfed.tasks.kinds import KINDS

log = logging.getLogger("curvfed")

FALL = 0.3
BACK = 0.05
"""A client falls if its accuracy drops by more than FALL between two of its rounds, and recovers
once it is within BACK of the old value."""

FEW = 10
"""Minimum number of test examples of a fall; with fewer it may be chance."""

OVERWEIGHT = 0.9
"""Largest share of all examples that a client can claim without a warning."""

FALLS = "falls"
"""Key of the warning about falls, which are logged by client."""

REFUSED = "refused"
"""Key of the warning about refused nodes, which are logged when they are refused."""

ABSENCES = "absences"
LOST = "lost"
"""Keys of the warnings about absent clients and lost state, which are logged by reply."""

UPDATES = "updates"
"""Key of the warning about long updates, which are logged when a client sends the first."""

LONG = 5.0
"""An update of more than this many medians of the round's lengths is a warning."""

LONGEST = 1e300
"""Stored for an infinite length, which JSON lacks."""

LARGE_LOSS = 1e3
"""Smallest training loss that is a warning: guessing among a million classes has a loss of 14."""

MOST_NAMED = 5
"""Largest number of clients that a sentence names."""

ADVICE_LONG = (
    "such an update can ruin the model; aggregation = robust or a smaller update-bound limits it"
)
ADVICE = "local training can undo what a model knows; a lower learning-rate makes its steps smaller"


def note_training(state: State, answer: Answer, federation: Federation) -> None:
    """Update the state with the clients' steps, losses and accuracies of a training phase, and log
    each client's first fall.

    Parameters
    ----------
    state : State
        Changed are `most_steps`, `largest_loss` and `courses`.
    """
    name = "score" if federation.metric == "accuracy" else "accuracy"
    if answer.cohort is not None:  # a mean above one step needs a client with more than one
        state.most_steps = max(state.most_steps, math.ceil(answer.cohort.get("steps", (0, 0))[0]))
    losses = [scores["loss"] for scores in answer.scores.values() if "loss" in scores]
    state.largest_loss = max(losses, default=(answer.cohort or {}).get("loss", (0.0, 0))[0])
    for partition, scores in answer.scores.items():
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
                log.warning("%s: %s", _fall(partition, course), ADVICE)
            course["back"] = None
        elif "round" in course and not course["back"] and accuracy >= course["from"] - BACK:
            course["back"] = answer.header.round


def note_lengths(state: State, number: int, lengths: Mapping[int, float], bound: float) -> None:
    """Record updates that are far longer than the others', and log each client's first.

    Parameters
    ----------
    number : int
        The round.
    lengths : mapping of partition to float
        As `curvfed.strategies.base.robust.update_lengths` gives them.
    bound : float
        Updates beyond it are left out; 0 for none.
    """
    for partition, length in lengths.items():
        if length <= LONG:
            continue
        record = state.long_updates.setdefault(partition, {"rounds": 0, "length": 0.0})
        if not record["rounds"]:
            outcome = "it is left out" if 0 < bound < length else ADVICE_LONG
            log.warning(
                "round %d: the update of client %d is %.3g times as long as the median: %s",
                number,
                partition,
                length,
                outcome,
            )
        record["rounds"] += 1
        record["length"] = max(record["length"], min(length, LONGEST))


def note_absences(state: State, cohort: Iterable[int], answer: Answer) -> None:
    """Count for each client the rounds that asked it to train and those without a valid reply."""
    for partition in cohort:
        state.train_requests[partition] = state.train_requests.get(partition, 0) + 1
        if partition not in answer.replies:
            absence = state.absences.get(partition, {"rounds": 0})
            reason = answer.reasons.get(partition, "it dropped out of the secure sum")
            state.absences[partition] = {"rounds": absence["rounds"] + 1, "reason": reason}


def note_lost(state: State, answer: Answer) -> None:
    """Record and log clients that lost their personal parameters, and the round they restored."""
    for partition, reply in answer.replies.items():
        if reply.restored is None:
            continue
        loss = {"round": state.stamps.get(partition, 0), "from": reply.restored}
        if loss != state.lost.get(partition):
            state.lost[partition] = loss
            log.warning("%s", _lost(partition, loss))


def note_answers(state: State, confusions: Mapping[int, Sequence[int]], metric: str) -> None:
    """Record whether every model predicts a single class, by the clients' confusion counts.

    With skewed labels this may be the best answer of some clients, so one client whose model
    predicts two classes rules the warning out.
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


def _overweight(sizes: Mapping[int, int | None]) -> str:
    """A warning about a client that claims nearly all examples of several clients."""
    known = {partition: size for partition, size in sizes.items() if size}
    largest = max(known, key=known.__getitem__, default=-1)
    if len(known) < 3 or known[largest] <= OVERWEIGHT * sum(known.values()):
        return ""
    return (
        f"client {largest} claims {known[largest]:,} of {sum(known.values()):,} examples, so the"
        " model is nearly its own; if it does not have them, leave it out, or count each client"
        " once by weights=uniform"
    )


def warnings(config: RunConfig, federation: Federation, state: State) -> dict[str, str]:
    """The warnings of the run so far: sentences by key."""
    sizes = {
        partition: description.statistics.get("num_train")
        for partition, description in federation.descriptions.items()
    }
    sizes |= federation.examples | state.examples
    empty = [partition for partition, size in sorted(sizes.items()) if size == 0]
    fallen = {
        partition: course
        for partition, course in sorted(state.courses.items())
        if "round" in course
    }
    texts = {
        "unread-keys": unread_keys(config),
        REFUSED: _refused(federation),
        "classes": _classes(federation),
        "names": of_one_client(federation),
        "unlabelled": unlabelled(federation),
        "crowded": crowded(len(federation.facts.class_names), sizes.values()),
        "examples": (
            f"{_clients(empty)} no training examples: such a client never trains, and is only"
            " scored; give it labelled data, or start the run without it"
            if empty
            else ""
        ),
        "weight": _overweight(sizes) if config.weights == "examples" else "",
        "tests": _untested(federation),
        "features": _features(federation),
        "loss": (
            f"the training loss is {state.largest_loss:.3g}: the features or the steps are too"
            " large to learn from; scale the features (normalize = l2 for graphs), or lower"
            " learning-rate"
            if state.largest_loss > LARGE_LOSS
            else ""
        ),
        "proximal": _proximal(config, state, federation.facts.task),
        "answers": (
            "at every client that tells it the model answers a single class for all test examples,"
            " though these are of several: it knows no more than which class is frequent; more"
            " rounds or another learning-rate may help"
            if state.one_answer
            else ""
        ),
        UPDATES: _long_updates(state),
        FALLS: _falls(fallen, len(federation.nodes)),
        ABSENCES: _absences(state),
        LOST: "; ".join(_lost(partition, loss) for partition, loss in sorted(state.lost.items())),
    }
    return {key: text for key, text in texts.items() if text}


def unmeasured(federation: Federation, state: State) -> dict[str, str]:
    """The warning of a run that ends without any accuracy."""
    figures = personal_figures(state.latest, federation.descriptions, state.cohort)
    if figures[PERSONAL_ACCURACY] is not None or state.scored.get("last"):
        return {}
    return {
        "unmeasured": (
            "nothing measures this run: no client has test examples, and the server scores no"
            " model; give the clients test examples (test masks, test-size), or choose a method"
            " with one model for all clients, which the server scores on test-data"
        )
    }


def _refused(federation: Federation) -> str:
    """The nodes that are refused at the start, with the reasons."""
    reasons = [
        f"{', '.join(names[:MOST_NAMED])}{', …' * (len(names) > MOST_NAMED)}: {reason}"
        for names, reason in grouped(federation.refused)
    ]
    count = len(federation.refused)
    total = count + len(federation.nodes)
    return (
        f"{count} of {total} nodes are refused and left out of the run:"
        f" {_some(reasons, ' reasons')}"
        if count
        else ""
    )


def _untested(federation: Federation) -> str:
    """The clients without test examples, if others have some: means over clients skip them."""
    sizes = {
        partition: description.statistics.get("num_test")
        for partition, description in sorted(federation.descriptions.items())
    }
    empty = [partition for partition, size in sizes.items() if size == 0]
    if not empty or len(empty) == len(sizes):
        return ""
    return f"{_clients(empty)} no test examples: no mean over the clients counts such a client"


def _features(federation: Federation) -> str:
    """The clients that report features too large for the Lorentz space."""
    norms = {
        partition: description.statistics.get("feature_norm", 0)
        for partition, description in sorted(federation.descriptions.items())
    }
    far = [partition for partition, norm in norms.items() if norm]
    return (
        f"{_clients(far)} features of a norm up to {max(norms.values()):g}: {FAR_FEATURES}"
        if far
        else ""
    )


def _classes(federation: Federation) -> str:
    """A single class in the whole run or at some clients, by class counts where clients share
    them, else by class names."""
    classes = {}
    for partition, description in sorted(federation.descriptions.items()):
        counts = description.statistics.get("class_counts") or [1] * len(description.class_names)
        counted = zip(description.class_names, counts, strict=True)
        classes[partition] = {
            (description.space, class_name) for class_name, count in counted if count
        }
    if len(everything := set().union(*classes.values())) == 1:
        return (
            f'all examples of the run are of one class, "{everything.pop()[1]}": every model that'
            " answers it is right, and accuracies mean nothing; check the labels of the data"
        )
    alone = [partition for partition, names in classes.items() if len(names) == 1]
    return (
        f"{_clients(alone)} examples of one class alone: always answering it is right there, which"
        " raises the mean accuracy and shows nothing; choose another partition or a larger alpha,"
        " or look at the other clients in clients.csv"
        if alone
        else ""
    )


def _proximal(config: RunConfig, state: State, task: str) -> str:
    """A proximal term without effect; with the default coefficient only for methods without other
    keys, which are FedAvg otherwise."""
    keys = [key for key, field in fields(type(config)) if _is_proximal(field)]
    key = next((key for key in keys if config[key]), "")
    if not key or state.most_steps != 1:
        return ""
    own_fields = type(config.own_keys).model_fields.values()
    is_fedavg = bool(own_fields) and all(map(_is_proximal, own_fields))
    if not is_fedavg and config[key] == defaults()[key]:
        return ""
    equals = f"{config.method} equals fedavg here" if is_fedavg else "the run is the same with 0"
    # the nodes of a graph are usually one batch
    smaller = " or lower batch-size" if KINDS[task].batches_training_only else ""
    return (
        f"the proximal term ({key} = {config[key]}) has no effect: every client makes one local"
        f" step per round, where its gradient is 0, so {equals}; raise local-epochs{smaller}"
    )


def _is_proximal(field: FieldInfo) -> bool:
    return any(isinstance(item, ProximalTerm) for item in field.metadata)


def _falls(fallen: dict[int, dict[str, Any]], num_clients: int) -> str:
    if not fallen:
        return ""
    texts = [
        _fall(partition, course)
        + (f", back in round {course['back']}" if course["back"] else ", not back")
        for partition, course in fallen.items()
    ]
    back = sum(bool(course["back"]) for course in fallen.values())
    return (
        f"{len(fallen)} of {num_clients} clients fell by more than {100 * FALL:.0f} points from one"
        f" of their rounds to the next, and {back} came back ({_some(texts)}): {ADVICE}"
    )


def _absences(state: State) -> str:
    """The absent clients with their numbers of rounds, the largest first."""
    ordered = sorted(state.absences.items(), key=lambda item: (-item[1]["rounds"], item[0]))
    texts = [
        f"client {partition} in {absence['rounds']} of {state.train_requests[partition]}"
        f" ({absence['reason']})"
        for partition, absence in ordered
    ]
    return (
        f"clients were out in rounds in which they were asked to train: {_some(texts)}"
        if texts
        else ""
    )


def _long_updates(state: State) -> str:
    """The clients whose updates are long in most rounds or beyond every honest length, the longest
    first: a small client's update is long now and then."""
    ordered = sorted(state.long_updates.items(), key=lambda item: (-item[1]["length"], item[0]))
    texts = [
        f"client {partition} in {record['rounds']} rounds, up to {record['length']:.3g} times"
        for partition, record in ordered
        if 2 * record["rounds"] > state.train_requests.get(partition, 0) or record["length"] > BOUND
    ]
    return (
        "clients sent updates that are far longer than the median of their round:"
        f" {_some(texts)}; they may be false, and what follows in other clients their effect"
        if texts
        else ""
    )


def _some(texts: Sequence[str], noun: str = "") -> str:
    """The first texts, and the number of the others."""
    hidden = len(texts) - MOST_NAMED
    return "; ".join(texts[:MOST_NAMED]) + (f"; … {hidden} more{noun}" if hidden > 0 else "")


def _lost(partition: int, loss: Mapping[str, Any]) -> str:
    since = f"went on from those of round {loss['from']}" if loss["from"] else "started afresh"
    return f"client {partition} lost its personal parameters of round {loss['round']} and {since}"


def _fall(partition: int, course: dict[str, Any]) -> str:
    return (
        f"client {partition} fell from {course['from']:.1%} to {course['to']:.1%} in round"
        f" {course['round']}"
    )


def _clients(partitions: Iterable[int]) -> str:
    """Subject and verb: client 3 has; clients 3, 5 have; 12 clients (0, 1, 2, 3, 4, …) have."""
    names = list(map(str, partitions))
    if len(names) > MOST_NAMED:
        return f"{len(names)} clients ({', '.join(names[:MOST_NAMED])}, …) have"
    return f"client {names[0]} has" if len(names) == 1 else f"clients {', '.join(names)} have"

"""Warnings of a run: what makes its figures mean less than they seem to, and what to do, each in
one sentence.

They are made of what the server has anyway: the clients' descriptions, their replies after
training, and what test examples are taken for where clients tell it. The log says each once;
`summary.json` and the report have them all.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curvfed.server_app.class_warnings import crowded, of_one_client, unlabelled
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation, grouped
from curvfed.server_app.personal_figures import personal_figures
from curvfed.server_app.phase import Phase
from curvfed.strategies.base.figures import PERSONAL_ACCURACY
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.methods import METHODS
from curvfed.tasks.examples import FAR_FEATURES

log = logging.getLogger("curvfed")

FALL = 0.3
BACK = 0.05
"""A client has fallen where its accuracy is lower than in its round before by more than the first,
and is back where it lies at most the second below what it was."""

FEW = 10
"""Test examples below which a fall is chance, where a client tells their number."""

FALLS = "falls"
"""The warning about falls, which the log has client by client."""

REFUSED = "refused"
"""The warning about refused nodes, which the log has as soon as they are."""

ABSENCES = "absences"
LOST = "lost"
"""The warnings about clients that were out, and about lost state, which the log has reply by
reply.
"""

LARGE_LOSS = 1e3
"""A training loss above it is of numbers too large to learn from; guessing among a million classes
has a loss of 14."""

MOST_NAMED = 5
"""Clients that a sentence names; of more it has the number."""

DISAGREEMENT = 0.1
"""Share of drawn points on which the kinds of classifiers disagree, from which on a run of hulls
says so."""

HALVES = ("space", "personal", "head", "head_from", "loss", "client", "server", "aggregation")
"""The fields of a method's row in which FedAvg with a further term is as FedAvg."""

STEADIER = (
    "local training can undo what a model knows; a lower learning-rate makes its steps smaller"
)


def note_training(state: State, phase: Phase, federation: Federation) -> None:
    """Note the clients' local steps and accuracies in a phase of training; a client's first fall is
    logged.

    Parameters
    ----------
    state : State
        Its `most_steps` and `courses` are changed.
    """
    name = "score" if federation.metric == "accuracy" else "accuracy"
    if phase.cohort is not None:  # a mean of more than one step is of a client with more than one
        state.most_steps = max(state.most_steps, math.ceil(phase.cohort.get("steps", (0, 0))[0]))
    losses = [measured["loss"] for measured in phase.scores.values() if "loss" in measured]
    state.largest_loss = max(losses, default=(phase.cohort or {}).get("loss", (0.0, 0))[0])
    for partition, measured in phase.scores.items():
        state.most_steps = max(state.most_steps, int(measured.get("steps", 0)))
        if (
            name not in measured
            or federation.descriptions[partition].statistics.get("num_test", FEW) < FEW
        ):
            continue
        now = measured[name]
        course = state.courses.setdefault(partition, {"last": measured[name]})
        before = course["last"]
        course["last"] = now
        if before - now > FALL:
            if "round" not in course:
                course |= {"round": phase.header.round, "from": before, "to": now}
                log.warning("%s: %s", _fall(partition, course), STEADIER)
            course["back"] = None
        elif "round" in course and not course["back"] and now >= course["from"] - BACK:
            course["back"] = phase.header.round


def note_absences(state: State, cohort: Iterable[int], phase: Phase) -> None:
    """Note who was asked to train in a round, and who gave no good reply."""
    for partition in cohort:
        state.asked[partition] = state.asked.get(partition, 0) + 1
        if partition not in phase.replies:
            known = state.absences.get(partition, {"rounds": 0})
            reason = phase.reasons.get(partition, "it dropped out of the secure sum")
            state.absences[partition] = {"rounds": known["rounds"] + 1, "reason": reason}


def note_lost(state: State, phase: Phase) -> None:
    """Note and log who has lost its personal parameters, and from which it went on."""
    for partition, reply in phase.replies.items():
        if reply.restored is None:
            continue
        told = {"round": phase.sent[partition].stamp, "from": reply.restored}
        if told != state.lost.get(partition):
            state.lost[partition] = told
            log.warning("%s", _lost(partition, told))


def note_answers(state: State, confusions: Mapping[int, Sequence[int]], metric: str) -> None:
    """Note whether every model answers one class alone, by `Task.confusion` of the clients that
    tell it.

    Where labels are skewed, some clients have no better answer, so a single other one is enough.
    """
    told = [counts for counts in confusions.values() if sum(counts[2::3]) >= FEW]
    answers = [set(counts[1::3]) for counts in told]
    is_mixed = any(len(set(counts[::3])) > 1 for counts in told)
    # Other metrics than accuracy do not depend on which class is the likeliest; -1 is no answer.
    state.one_answer = (
        metric == "accuracy"
        and is_mixed
        and all(len(one) == 1 and -1 not in one for one in answers)
    )


def mostly_absent(state: State) -> list[int]:
    """The clients that gave no good reply in most of the rounds in which they were asked to
    train.
    """
    return [
        partition
        for partition, one in sorted(state.absences.items())
        if 2 * one["rounds"] > state.asked[partition]
    ]


def warnings(config: RunConfig, federation: Federation, state: State) -> dict[str, str]:
    """The warnings of the run so far, as sentences, each by what it is about."""
    sizes = {
        p: about.statistics.get("num_train") for p, about in federation.descriptions.items()
    } | state.examples
    empty = [partition for partition, size in sorted(sizes.items()) if size == 0]
    fallen = {
        partition: course
        for partition, course in sorted(state.courses.items())
        if "round" in course
    }
    found = {
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
        FALLS: _falls(fallen, len(federation.nodes)),
        ABSENCES: _absences(state),
        LOST: "; ".join(_lost(partition, told) for partition, told in sorted(state.lost.items())),
    }
    return {about: text for about, text in found.items() if text}


def unmeasured(federation: Federation, state: State) -> dict[str, str]:
    """The warning of a run that has no accuracy at all, once nothing can be scored any more."""
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


def told_of_clients(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Warnings of a one-shot run: of clients most of whose points were sent, whose hulls look odd
    or are none, and whom a model of their own serves better; and of classifiers that disagree."""
    disagreement = metrics.get("classifiers_disagree", 0)
    shares = [100 * value for name, value in metrics.items() if name.startswith("left_out_")]
    odd, refused, fallen, sent = (
        metrics.get(f"clients_{name}", 0) for name in ("odd", "refused", "fallen", "mostly_sent")
    )
    found = {
        "sent": (
            f"of {sent} clients most training points were sent, as bins: so few points are nearly"
            " all corners of their hulls, which hide nothing of them; a larger hull.epsilon or a"
            " lower hull.cap sends fewer"
            if sent
            else ""
        ),
        "odd": (
            f"{odd} of {metrics.get('clients_decoded', odd)} clients look odd: their hulls lie"
            " where those of the others' classes are, as with shuffled labels, another embedding"
            " or made-up points; nobody can tell from the sum who they are, so let every site"
            " check its labels and its embedding"
            if odd
            else ""
        ),
        "refused": (
            f"{refused} clients sent what is no convex hull and are left out; look at the nodes'"
            " versions and at who runs them"
            if refused
            else ""
        ),
        "fallen": (
            f"at {fallen} clients a model of the client's own points is right far more often than"
            " the run's classifier; their logs tell how often; let these sites check their labels"
            " and their embedding"
            if fallen
            else ""
        ),
        "classifiers": (
            f"the kinds of classifiers disagree on {disagreement:.0%} of the points drawn within"
            f" hulls of left-out clients, and put {min(shares):.0f} to {max(shares):.0f}% of them"
            " in their group: hulls alone do not say for sure which kind is best; on test points"
            " (test-data), compare the values of hull.classifier"
            if disagreement >= DISAGREEMENT
            else ""
        ),
    }
    return {about: text for about, text in found.items() if text}


def _refused(federation: Federation) -> str:
    """Which nodes are left out from the start, and why."""
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
    """Which clients a mean over the clients leaves out, where others have test examples."""
    sizes = {
        p: about.statistics.get("num_test") for p, about in sorted(federation.descriptions.items())
    }
    empty = [partition for partition, size in sizes.items() if size == 0]
    if not empty or len(empty) == len(sizes):
        return ""
    return f"{_clients(empty)} no test examples: no mean over the clients counts such a client"


def _features(federation: Federation) -> str:
    """Features too far out for the Lorentz space, where clients share how far."""
    norms = {
        p: about.statistics.get("feature_norm", 0)
        for p, about in sorted(federation.descriptions.items())
    }
    far = [partition for partition, norm in norms.items() if norm]
    return (
        f"{_clients(far)} features of a norm up to {max(norms.values()):g}: {FAR_FEATURES}"
        if far
        else ""
    )


def _classes(federation: Federation) -> str:
    """Of one class alone, in the whole run or at some clients; counts tell more than names, where
    they are shared."""
    classes = {}
    for partition, about in sorted(federation.descriptions.items()):
        counts = about.statistics.get("class_counts") or [1] * len(about.class_names)
        named = zip(about.class_names, counts, strict=True)
        classes[partition] = {(about.space, name) for name, count in named if count}
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
    """A proximal term without effect; at a coefficient that nobody has changed only where the
    method is that term."""
    row = config.row
    key = config.row.proximal
    if not config.proximal or state.most_steps != 1:
        return ""
    is_fedavg = all(getattr(row, part) == getattr(METHODS["fedavg"], part) for part in HALVES)
    if not is_fedavg and config[key] == defaults()[key]:
        return ""
    equals = f"{config.method} equals fedavg here" if is_fedavg else "the run is the same with 0"
    # a graph's nodes are one batch where they fit
    smaller = "" if task == "nodes" else " or lower batch-size"
    return (
        f"the proximal term ({key} = {config[key]}) has no effect: every client makes one local"
        f" step per round, where its gradient is 0, so {equals}; raise local-epochs{smaller}"
    )


def _falls(fallen: dict[int, dict[str, Any]], num_clients: int) -> str:
    if not fallen:
        return ""
    told = [
        _fall(partition, course)
        + (f", back in round {course['back']}" if course["back"] else ", not back")
        for partition, course in fallen.items()
    ]
    back = sum(bool(course["back"]) for course in fallen.values())
    return (
        f"{len(fallen)} of {num_clients} clients fell by more than {100 * FALL:.0f} points from one"
        f" of their rounds to the next, and {back} came back ({_some(told)}): {STEADIER}"
    )


def _absences(state: State) -> str:
    """Who was out in how many rounds, the most absent first."""
    ordered = sorted(state.absences.items(), key=lambda item: (-item[1]["rounds"], item[0]))
    told = [
        f"client {partition} in {one['rounds']} of {state.asked[partition]} ({one['reason']})"
        for partition, one in ordered
    ]
    return (
        f"clients were out in rounds in which they were asked to train: {_some(told)}"
        if told
        else ""
    )


def _some(texts: Sequence[str], noun: str = "") -> str:
    """The first texts, and how many more there are."""
    more = len(texts) - MOST_NAMED
    return "; ".join(texts[:MOST_NAMED]) + (f"; … {more} more{noun}" if more > 0 else "")


def _lost(partition: int, told: Mapping[str, Any]) -> str:
    since = f"went on from those of round {told['from']}" if told["from"] else "started afresh"
    return f"client {partition} lost its personal parameters of round {told['round']} and {since}"


def _fall(partition: int, course: dict[str, Any]) -> str:
    return (
        f"client {partition} fell from {course['from']:.1%} to {course['to']:.1%} in round"
        f" {course['round']}"
    )


def _clients(partitions: Iterable[int]) -> str:
    """Such as: client 3 has; clients 3, 5 have; 12 clients (0, 1, 2, 3, 4, …) have."""
    names = list(map(str, partitions))
    if len(names) > MOST_NAMED:
        return f"{len(names)} clients ({', '.join(names[:MOST_NAMED])}, …) have"
    return f"client {names[0]} has" if len(names) == 1 else f"clients {', '.join(names)} have"

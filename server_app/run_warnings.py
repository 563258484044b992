"""Warnings of a run: why its figures may mislead, and the remedy, each in one sentence. They use
the server's information: the clients' descriptions with their classes, their replies after
training, and their confusion counts where they send them. The log has each once; summary.json and
the report have all."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from curvfed.server_app.answer import personal_figures, trivial_scores
from curvfed.server_app.client_history import ADVICE, FALL, fall_text, lost_text
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.federation import Federation, grouped
from curvfed.strategies.base.aggregation import BOUND
from curvfed.strategies.base.figures import GLOBAL_ACCURACY, PERSONAL_ACCURACY, find, words_of
from curvfed.strategies.base.keys import ProximalTerm
from curvfed.strategies.base.score_words import FEW_TESTS, few_examples
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import fields
from curvfed.strategies.config.run_config import RunConfig, defaults
from curvfed.tasks.class_names import alike, placeholders, row_of
from curvfed.tasks.examples import FAR_FEATURES
from curvfed.tasks.kinds import GLOBAL_TRIVIAL, GUESSES, KINDS, TRIVIAL_OF

FEWEST = 20
"""Minimum number of training examples for a warning about many classes; fewer may each have a class
of their own."""

OVERWEIGHT = 0.9
"""Largest share of all examples that a client can claim without a warning."""

LOGGED_AT_ONCE = frozenset({"refused", "updates", "falls", "absences", "lost"})
"""Keys of warnings with events that are logged one by one, when they happen."""

LARGE_LOSS = 1e3
"""Smallest training loss that is a warning: guessing among a million classes has a loss of 14."""

MOST_NAMED = 5
"""Largest number of clients or classes that a sentence names."""


def _of_one_client(federation: Federation) -> str:
    """The classes that a single client has, with similar names of other clients; "" for none.

    Most entities of links belong to a single client, so only those with similar names are listed.
    """
    holders = defaultdict(list)
    own_data = {
        partition: description
        for partition, description in federation.descriptions.items()
        if not description.partition_digest
    }
    for partition, description in sorted(own_data.items()):
        for name in description.class_names:
            holders[name].append(partition)
    spellings = defaultdict(list)
    for name in holders:
        spellings[alike(name)].append(name)
    matched = []
    unmatched = []
    for name, (client, *further) in holders.items():
        if further or len(own_data) == 1:
            continue
        match = next(
            (spelling for spelling in spellings[alike(name)] if client not in holders[spelling]), ""
        )
        if match:
            matched.append(
                f'client {client} "{name}", perhaps "{match}" of client {holders[match][0]}'
            )
        else:
            unmatched.append(f'client {client} "{name}"')
    kind = KINDS[federation.facts.task]
    listed = matched + unmatched if kind.has_classes else matched
    if not listed:
        return ""
    return (
        f"a single client has these {kind.named}: {_some(listed)}. Nobody else learns them,"
        " nor is scored on them; write a name in the same way at every site"
    )


def _unlabelled(classes: Sequence[str]) -> str:
    """The classes named by a placeholder for a missing label."""
    names = placeholders(classes)
    if not names:
        return ""
    return (
        f"these are trained and scored as classes: {row_of(names[:MOST_NAMED])}. Leave the label"
        " empty where none is known; points.classes names the classes to keep"
    )


def _crowded(num_classes: int, sizes: Collection[int | None]) -> str:
    """A warning about more classes than half the training examples: probably names of examples or
    measurements."""
    shared = [size for size in sizes if size is not None]
    count = sum(shared)
    if len(shared) < len(sizes) or count < FEWEST or 2 * num_classes <= count:
        return ""
    return (
        f"there are {num_classes} classes for {count} training examples: look at what the labels of"
        " the data are"
    )


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


class RunWarnings:
    """The warnings of a run. Those of its configuration and of the clients' data are found once;
    those of its rounds follow from its state.

    Parameters
    ----------
    config : RunConfig
    federation : Federation
    """

    def __init__(self, config: RunConfig, federation: Federation) -> None:
        self._num_clients = len(federation.nodes)
        self._of_start = _of_data(config, federation) | _of_keys(config)
        self._of_single_steps = _proximal(config, federation.facts.task)

    def so_far(self, state: State) -> dict[str, str]:
        """The warnings of the run so far: sentences by key."""
        texts = dict(self._of_start)
        if state.largest_loss > LARGE_LOSS:
            texts["loss"] = (
                f"the training loss is {state.largest_loss:.3g}: the features or the steps are too"
                " large to learn from; scale the features (normalize = l2 for graphs), or lower"
                " learning-rate"
            )
        if state.most_steps == 1:
            texts["proximal"] = self._of_single_steps
        if state.one_answer:
            texts["answers"] = (
                "at every client that tells it the model answers a single class for all test"
                " examples, though these are of several: it knows no more than which class is"
                " frequent; more rounds or another learning-rate may help"
            )
        if state.long_updates:
            texts["updates"] = _long_updates(state)
        fallen = {
            partition: course
            for partition, course in sorted(state.courses.items())
            if "round" in course
        }
        if fallen:
            texts["falls"] = _falls(fallen, self._num_clients)
        if state.absences:
            texts["absences"] = _absences(state)
        losses = [lost_text(partition, loss) for partition, loss in sorted(state.lost.items())]
        texts["lost"] = "; ".join(losses)
        return {key: text for key, text in texts.items() if text}


def _of_data(config: RunConfig, federation: Federation) -> dict[str, str]:
    """Warnings of the nodes and of their data, by key; "" for none."""
    sizes = {
        partition: description.statistics.get("num_train")
        for partition, description in federation.descriptions.items()
    }
    sizes |= federation.examples
    empty = [partition for partition, size in sorted(sizes.items()) if size == 0]
    facts = federation.facts
    kind = KINDS[facts.task]
    classes = facts.class_names if kind.has_classes else ()
    texts = {
        "unread-keys": unread_keys(config),
        "refused": _refused(federation),
        "classes": _classes(federation),
        "names": _of_one_client(federation),
        "unlabelled": _unlabelled(classes),
        "crowded": _crowded(len(classes), sizes.values()),
    }
    if empty:
        texts["examples"] = (
            f"{_clients(empty)} no training examples: such a client never trains, and is only"
            " scored; give it labelled data, or start the run without it"
        )
    if config.weights == "examples":
        texts["weight"] = _overweight(sizes)
    texts["tests"] = _untested(federation)
    statistics = [item.statistics for item in federation.descriptions.values()]
    texts[facts.task] = kind.warning(statistics)
    texts["features"] = _features(federation)
    return texts


def _of_keys(config: RunConfig) -> dict[str, str]:
    """Warnings of keys without effect, by key."""
    texts = {}
    if config.calibration_every > config.num_rounds > 0:
        texts["calibrations"] = (
            f"calibration-every = {config.calibration_every} has no effect: the run has"
            f" {config.num_rounds} rounds, and calibrates after the last in any case"
        )
    if config.burn_in >= config.num_rounds > 0:
        texts["burn-in"] = (
            f"burn-in = {config.burn_in} covers all {config.num_rounds} rounds: each has a tenth of"
            " learning-rate"
        )
    if config.num_rounds and config.learning_rate == 0 and config.row.has_network:
        texts["zero-rate"] = (
            f"learning-rate = 0: {config.num_rounds} rounds change no trained parameter of a client"
        )
    return texts


def at_the_end(config: RunConfig, federation: Federation, state: State) -> dict[str, str]:
    """The warnings of a run that ends: without any accuracy, with one of few test examples, or
    below the trivial answer."""
    return (
        _unmeasured(config, federation, state)
        | _of_few_examples(federation, state)
        | _below_trivial(config, federation, state)
    )


def _of_few_examples(federation: Federation, state: State) -> dict[str, str]:
    """The main scores of fewer than `FEW_TESTS` test examples."""
    figures = personal_figures(state.latest, federation.descriptions, state.cohort)
    counts = figures["metrics"] | state.scored.get("figures", {})
    scores = {PERSONAL_ACCURACY: figures[PERSONAL_ACCURACY]}
    scores[GLOBAL_ACCURACY] = next(iter(state.scored.get("last", [])[-1:]), None)
    texts = []
    for name, score in scores.items():
        number = counts.get(find(name).examples)
        if score is not None and number is not None and 0 < number < FEW_TESTS:
            texts.append(few_examples(words_of(name, counts), number))
    return {"few-tests": "; ".join(texts)} if texts else {}


def _below_trivial(config: RunConfig, federation: Federation, state: State) -> dict[str, str]:
    """The clients' mean score in the best round, or else the score of the global model, if it is
    below that of the trivial answer."""
    metric = federation.metric
    name = TRIVIAL_OF.get(metric, "")
    trivial = trivial_scores(federation.descriptions).get(name, GUESSES.get(metric))
    latest = personal_figures(state.latest, federation.descriptions, state.cohort)
    best = state.best or latest
    score = best.get("metrics", {}).get(metric, best.get(PERSONAL_ACCURACY))
    scored = "the clients' mean score"
    if score is None:
        name = GLOBAL_TRIVIAL
        trivial = state.scored.get("figures", {}).get(name)
        score = next(iter(state.scored.get("last", [])[-1:]), None)
        scored = f"the {find(GLOBAL_ACCURACY).words}"
    if trivial is None or score is None or score >= trivial:
        return {}
    words = find(name).words if name else "a guess"
    remedy = KINDS[federation.facts.task].remedy_below_trivial(config)
    return {
        "trivial": (
            f"{scored}, {100 * score:.1f}%, is below that of the trivial answer"
            f" ({words}), {100 * trivial:.1f}%: the model has learned less than counting shows"
            f"{'; ' if remedy else ''}{remedy}"
        )
    }


def _unmeasured(config: RunConfig, federation: Federation, state: State) -> dict[str, str]:
    figures = personal_figures(state.latest, federation.descriptions, state.cohort)
    scored = state.scored.get("last") or state.scored.get("figures")
    kind = KINDS[federation.facts.task]
    if not kind.is_measured_by_figures(config):
        scored = state.scored.get("last")
    if figures[PERSONAL_ACCURACY] is not None or scored:
        return {}
    return {"unmeasured": kind.unscored}


def _refused(federation: Federation) -> str:
    """The nodes that are refused at the start, with the reasons."""
    reasons = [
        f"{', '.join(names[:MOST_NAMED])}{', …' * (len(names) > MOST_NAMED)}: {reason}"
        for names, reason in grouped(federation.refused)
    ]
    count = len(federation.refused)
    if not count:
        return ""
    total = count + len(federation.nodes)
    listed = _some(reasons, " reasons")
    return f"{count} of {total} nodes are refused and left out of the run: {listed}"


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
    if not far:
        return ""
    largest = max(norms.values())
    return f"{_clients(far)} features of a norm up to {largest:g}: {FAR_FEATURES}"


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
            " answers it is right, and accuracies mean nothing."
            f" {KINDS[federation.facts.task].labels_hint}"
        )
    alone = [partition for partition, names in classes.items() if len(names) == 1]
    if not alone:
        return ""
    return (
        f"{_clients(alone)} examples of one class alone: always answering it is right there, which"
        " raises the mean accuracy and shows nothing; choose another partition or a larger alpha,"
        " or look at the other clients in clients.csv"
    )


def _proximal(config: RunConfig, task: str) -> str:
    """A proximal term without effect if clients make one step per round; with the default
    coefficient only for methods without other keys, which are FedAvg otherwise."""
    keys = [key for key, field in fields(type(config)) if _is_proximal(field)]
    key = next((key for key in keys if config[key]), "")
    if not key:
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
    texts = [
        fall_text(partition, course)
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
    return f"clients were out in rounds in which they were asked to train: {_some(texts)}"


def _long_updates(state: State) -> str:
    """The clients with updates that are long in most rounds or beyond every honest length, the
    longest first: a small client's update is long now and then."""
    ordered = sorted(state.long_updates.items(), key=lambda item: (-item[1]["length"], item[0]))
    texts = []
    for partition, record in ordered:
        rounds = record["rounds"]
        length = record["length"]
        if 2 * rounds > state.train_requests.get(partition, 0) or length > BOUND:
            texts.append(f"client {partition} in {rounds} rounds, up to {length:.3g} times")
    if not texts:
        return ""
    return (
        "clients sent updates that are far longer than the median of their round:"
        f" {_some(texts)}; they may be false, and what follows in other clients their effect"
    )


def _some(texts: Sequence[str], noun: str = "") -> str:
    """The first texts, and the number of the others."""
    hidden = len(texts) - MOST_NAMED
    return "; ".join(texts[:MOST_NAMED]) + (f"; … {hidden} more{noun}" if hidden > 0 else "")


def _clients(partitions: Iterable[int]) -> str:
    """Subject and verb: client 3 has; clients 3, 5 have; 12 clients (0, 1, 2, 3, 4, …) have."""
    names = list(map(str, partitions))
    if len(names) > MOST_NAMED:
        return f"{len(names)} clients ({', '.join(names[:MOST_NAMED])}, …) have"
    return f"client {names[0]} has" if len(names) == 1 else f"clients {', '.join(names)} have"

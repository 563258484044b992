"""Warnings of the nodes of a run and of their data: each is a function of the configuration and the
clients' descriptions, and gives one sentence, or "" for none."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from curvfed.server_app.federation import Federation, grouped
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.holders import few_stay
from curvfed.strategies.config.one_shot import server_class
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.class_names import alike, row_of
from curvfed.tasks.examples import FAR_FEATURES
from curvfed.tasks.kinds import KINDS

FEWEST = 20
"""Minimum number of training examples for a warning about many classes; fewer may each have a class
of their own."""

OVERWEIGHT = 0.9
"""Largest share of all examples that a client can claim without a warning."""

MOST_NAMED = 5
"""Largest number of clients or classes that a sentence names."""


PLACEHOLDERS = frozenset(
    (
        "",
        "-",
        "missing",
        "na",
        "nan",
        "nil",
        "none",
        "noclass",
        "nolabel",
        "notassigned",
        "notavailable",
        "null",
        "unannotated",
        "unassigned",
        "undefined",
        "undetermined",
        "unknown",
        "unlabeled",
        "unlabelled",
    )
)
"""Names, as returned by `alike`, that may be a class, but more often mean a missing label."""


def data_warnings(config: RunConfig, federation: Federation) -> dict[str, str]:
    """The warnings of a run's nodes and data: sentences by key."""
    texts = {"unread-keys": unread_keys(config)}
    for key, make in OF_DATA:
        texts[key or federation.facts.task] = make(config, federation)
    return {key: text for key, text in texts.items() if text}


def _sizes(federation: Federation) -> dict[int, int | None]:
    """The number of training examples of each client; None if it is not known."""
    sizes = {
        partition: description.statistics.get("num_train")
        for partition, description in federation.descriptions.items()
    }
    return sizes | federation.examples


def _class_names(federation: Federation) -> Sequence[str]:
    """The federation's classes; none for data with other names."""
    facts = federation.facts
    return facts.class_names if KINDS[facts.task].has_classes else ()


def _refused(config: RunConfig, federation: Federation) -> str:
    """The nodes that are refused at the start, with the reasons."""
    reasons = [
        f"{', '.join(names[:MOST_NAMED])}{', …' * (len(names) > MOST_NAMED)}: {reason}"
        for names, reason in grouped(federation.refused)
    ]
    count = len(federation.refused)
    if not count:
        return ""
    total = count + len(federation.nodes)
    listed = some(reasons, " reasons")
    return f"{count} of {total} nodes are refused and left out of the run: {listed}"


def _classes(config: RunConfig, federation: Federation) -> str:
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
            f" {KINDS[federation.facts.task].words.labels_hint}"
        )
    alone = [partition for partition, names in classes.items() if len(names) == 1]
    if not alone:
        return ""
    remedy = ""
    if federation.shares_public_data:
        remedy = " choose another partition, or"
        if config.partition == "dirichlet":
            remedy = " choose another partition or a larger alpha, or"
    return (
        f"{_clients(alone)} examples of one class alone: always answering it is right there, which"
        f" raises the mean accuracy and shows nothing;{remedy} look at the other clients in"
        " clients.csv"
    )


def _names(config: RunConfig, federation: Federation) -> str:
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
        f"a single client has these {kind.words.names}: {some(listed)}."
        f" {_learnt(config, federation)}, and no other client is scored on them; write a name in"
        " the same way at every site"
    )


def _learnt(config: RunConfig, federation: Federation) -> str:
    """The part of a class or an entity of a single client in the model of all, in words."""
    row = config.row
    minima = [item.min_holders for item in federation.descriptions.values()]
    stays = few_stay(config, minima)
    if row.is_one_shot and not (stays or config.guard.is_private):
        return (
            f"The model that all receive has their names, and the {server_class(config).summands}"
            " that this client sends of them"
        )
    # An averaged head has a row for each class, whatever stays of other sums.
    has_row = row.has_network and config.network.head_from == "training"
    is_personal = row.is_personal("head.weight", federation.facts.own_ends)
    if is_personal or (stays and not (has_row and KINDS[federation.facts.task].has_classes)):
        return "Nobody else learns them"
    return "What the model that all receive knows of them is of this client alone"


def _unlabelled(config: RunConfig, federation: Federation) -> str:
    """The classes named by a placeholder for a missing label."""
    names = placeholders(_class_names(federation))
    if not names:
        return ""
    return (
        f"these are trained and scored as classes: {row_of(names[:MOST_NAMED])}. Leave the label"
        " empty where none is known; points.classes names the classes to keep"
    )


def placeholders(names: Sequence[str]) -> list[str]:
    """The names that people give to examples without a class.

    Examples
    --------
    >>> placeholders(["T cell", "Unassigned", "?", "n.a."]), placeholders(["+", "-"])
    (['Unassigned', '?', 'n.a.'], [])
    """
    return [
        name for name in names if alike(name) in PLACEHOLDERS and not (name == "-" and "+" in names)
    ]


def _spellings(config: RunConfig, federation: Federation) -> str:
    """The classes of one client with names that differ in case, blanks or signs alone."""
    if not KINDS[federation.facts.task].has_classes:
        return ""
    pairs: dict[str, str] = {}
    for names in {tuple(item.class_names) for item in federation.descriptions.values()}:
        spellings = defaultdict(list)
        for name in names:
            spellings[alike(name)].append(name)
        for form, similar in spellings.items():
            if len(form) > 1 and len(similar) > 1:  # letters are classes of their own
                pairs[form] = " and ".join(f'"{name}"' for name in similar)
    if not pairs:
        return ""
    return (
        "names that differ in spelling alone are trained and scored as different classes:"
        f" {some(list(pairs.values()))}; write the name of a class in one way"
    )


def _crowded(config: RunConfig, federation: Federation) -> str:
    """A warning about more classes than half the training examples: probably names of examples or
    measurements."""
    num_classes = len(_class_names(federation))
    sizes = _sizes(federation).values()
    shared = [size for size in sizes if size is not None]
    count = sum(shared)
    if len(shared) < len(sizes) or count < FEWEST or 2 * num_classes <= count:
        return ""
    return (
        f"there are {num_classes} classes for {count} training examples: look at what the labels of"
        " the data are"
    )


def _without_examples(config: RunConfig, federation: Federation) -> str:
    """The clients without training examples."""
    empty = [partition for partition, size in sorted(_sizes(federation).items()) if size == 0]
    if not empty:
        return ""
    return (
        f"{_clients(empty)} no training examples: such a client never trains, and is only"
        " scored; give it labelled data, or start the run without it"
    )


def _overweight(config: RunConfig, federation: Federation) -> str:
    """A warning about a client that claims nearly all examples of several clients."""
    if config.weights != "examples":
        return ""
    known = {partition: size for partition, size in _sizes(federation).items() if size}
    largest = max(known, key=known.__getitem__, default=-1)
    if len(known) < 3 or known[largest] <= OVERWEIGHT * sum(known.values()):
        return ""
    return (
        f"client {largest} claims {known[largest]:,} of {sum(known.values()):,} examples, so the"
        " model is nearly its own; if it does not have them, leave it out, or count each client"
        " once by weights=uniform"
    )


def _untested(config: RunConfig, federation: Federation) -> str:
    """The clients without test examples, if others have some: means over clients skip them."""
    sizes = {
        partition: description.statistics.get("num_test")
        for partition, description in sorted(federation.descriptions.items())
    }
    empty = [partition for partition, size in sizes.items() if size == 0]
    if not empty or len(empty) == len(sizes):
        return ""
    return f"{_clients(empty)} no test examples: no mean over the clients counts such a client"


def _features(config: RunConfig, federation: Federation) -> str:
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


def some(texts: Sequence[str], noun: str = "") -> str:
    """The first texts, and the number of the others."""
    hidden = len(texts) - MOST_NAMED
    return "; ".join(texts[:MOST_NAMED]) + (f"; … {hidden} more{noun}" if hidden > 0 else "")


def _clients(partitions: Iterable[int]) -> str:
    """Subject and verb: client 3 has; clients 3, 5 have; 12 clients (0, 1, 2, 3, 4, …) have."""
    names = list(map(str, partitions))
    if len(names) > MOST_NAMED:
        return f"{len(names)} clients ({', '.join(names[:MOST_NAMED])}, …) have"
    return f"client {names[0]} has" if len(names) == 1 else f"clients {', '.join(names)} have"


def _of_kind(config: RunConfig, federation: Federation) -> str:
    """The warning of the kind of data."""
    statistics = [item.statistics for item in federation.descriptions.values()]
    return KINDS[federation.facts.task].warning(statistics)


OF_DATA: tuple[tuple[str, Callable[[RunConfig, Federation], str]], ...] = (
    ("refused", _refused),
    ("classes", _classes),
    ("names", _names),
    ("unlabelled", _unlabelled),
    ("spellings", _spellings),
    ("crowded", _crowded),
    ("examples", _without_examples),
    ("weight", _overweight),
    ("tests", _untested),
    ("", _of_kind),
    ("features", _features),
)
"""The warnings by key, in the order in which they are read; that of the kind of data has the task
as its key."""

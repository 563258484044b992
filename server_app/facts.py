"""Whether the data of a run's clients fit together, and the facts that all clients get about
them."""

from collections import Counter

from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import Description, Facts
from curvfed.tasks.kinds import KINDS

DIFFERENT_PARTITION = (
    "its part belongs to another partition of the public data set: num-partitions and the data"
    " set's files must be the same at all nodes"
)


def check_clients(descriptions: dict[int, Description], config: RunConfig) -> Facts:
    """The facts of a run with all of these clients.

    Raises
    ------
    FederationError
        If a client's data differ in kind from those of the majority, or the method or the metric
        does not work on such data.
    """
    for partition, reason in remove_unlike(descriptions).items():
        raise FederationError(f"data[{partition}]: {reason}", key="clients-differ")
    return facts_for(descriptions, config)


def remove_unlike(descriptions: dict[int, Description]) -> dict[int, str]:
    """Remove the clients with data of another kind than the majority's; return the reasons by
    partition."""
    if not descriptions:
        return {}
    kind_counts = Counter(map(_kind, descriptions.values()))
    common_kind, partition_key = kind_counts.most_common(1)[0][0]
    refused = {}
    for partition, description in list(descriptions.items()):
        kind, key = _kind(description)
        if kind != common_kind:
            refused[partition] = (
                f"its data are {kind}, the others' are {common_kind}"
                f"{_channels_hint(kind, common_kind)}"
            )
        elif key != partition_key:
            refused[partition] = DIFFERENT_PARTITION
        else:
            continue
        del descriptions[partition]
    return refused | _remove_other_depths(descriptions)


def _channels_hint(kind: str, common_kind: str) -> str:
    """The remedy for images that are grey among others in colour or the reverse; "" for others."""
    kinds = sorted((kind, common_kind))
    if kinds[0] == kinds[1] or kinds[0].replace(" of 1x", " of 3x") != kinds[1]:
        return ""
    return "; set images.channels=1 for grey images at all nodes, or images.channels=3 for colour"


def _remove_other_depths(descriptions: dict[int, Description]) -> dict[int, str]:
    """Remove the clients with another number of bits in 16-bit images than the majority, or if two
    numbers are as frequent, than the larger; return the reasons by partition."""
    counts = Counter(description.bits for description in descriptions.values() if description.bits)
    common = max(counts, key=lambda bits: (counts[bits], bits), default=0)
    refused = {}
    for partition, description in list(descriptions.items()):
        if description.bits in (0, common):
            continue
        refused[partition] = (
            f"its 16-bit images are read as {description.bits} bits, the others' as {common}, by"
            " their highest values; set images.bits to the bits of white at all nodes, such as"
            f" images.bits={max(counts)}"
        )
        del descriptions[partition]
    return refused


def facts_for(described: dict[int, Description], config: RunConfig) -> Facts:
    """The facts of a run with these clients; refuses data that the method or the metric does not
    support."""
    row = config.row
    facts = _facts(described)
    check_task(facts.task, config)
    is_private = not all(description.statistics for description in described.values())
    if learner_class(row).reports_statistics and is_private:
        raise FederationError(
            f'method = "{config.method}" uses figures about the clients\' data: it needs'
            " share-statistics=true",
            key="private-statistics",
        )
    counts_classes = config.calibrator is not None and config.calibrator.counts_classes
    if counts_classes and is_private and not config.is_masked:
        raise FederationError(
            "the calibration sums the sizes of the clients' classes: it needs share-statistics=true"
            " or secure-sum=true",
            key="private-statistics",
        )
    metric = next(iter(described.values())).metric
    count = len(facts.class_names)
    if metric == "roc_auc" and not facts.own_ends and count != 2:
        raise FederationError(
            f"ROC-AUC needs 2 classes, the clients have {count}: {facts.class_names}",
            key="not-two-classes",
        )
    return facts


def check_task(task: str, config: RunConfig) -> None:
    """Refuse data on which the method or the calibration does not work.

    Raises
    ------
    FederationError
    """
    if task not in config.row.tasks:
        raise FederationError(
            f'the data are {task}, method = "{config.method}" works on'
            f" {', '.join(config.row.tasks)}",
            key="other-task",
        )
    if config.calibration == "ffc" and not KINDS[task].has_shape:
        raise FederationError(
            f'the data are {task}, and calibration = "ffc"; allowed is calibration = auto or none,'
            " as classifiers of images alone are calibrated",
            key="other-task",
        )


def _facts(described: dict[int, Description]) -> Facts:
    """Number of features, and the union of the classes in the order of the partitions; neither if
    the feature spaces differ."""
    first = next(iter(described.values()))
    spaces = {(description.space, description.num_features) for description in described.values()}
    if KINDS[first.task].has_spaces and len(spaces) > 1:
        return Facts(first.task, 0, (), own_ends=True)
    names = dict.fromkeys(
        name for description in described.values() for name in description.class_names
    )
    kind = KINDS[first.task]
    max_classes = kind.max_classes
    if len(names) > max_classes // 10:  # a mistake of one client would enlarge all heads
        largest = max(described, key=lambda partition: len(described[partition].class_names))
        count = len(described[largest].class_names)
        log.warning(
            "the clients name %d %s in total, partition-id %d names %d",
            len(names),
            kind.words.names,
            largest,
            count,
        )
    if len(names) > max_classes:
        raise FederationError(
            f"the clients name {len(names)} {kind.words.names} in total; allowed are up to"
            f" {max_classes}",
            key="too-many-classes",
        )
    bits = max(description.bits for description in described.values())
    return Facts(first.task, first.num_features, tuple(names), first.shape, bits=bits)


def _kind(description: Description) -> tuple[str, tuple[str, ...]]:
    """The kind of a client's data, and a key of the public data set's partition; both must be the
    same at all clients."""
    kind = KINDS[description.task]
    key: tuple[str, ...] = ()
    # parts of graph data sets list all classes
    if description.partition_digest and not kind.has_spaces:
        key = (
            description.partition_digest,
            str(description.num_partitions),
            # names that are no classes may be those of the client alone, such as entities of links
            *(description.class_names if kind.has_classes else ()),
        )
    sizes = kind.sizes_of(description.num_features, description.shape, description.class_names)
    source = ", part of a public data set" if key else ""
    return f"{description.task}{sizes} scored by {description.metric}{source}", key

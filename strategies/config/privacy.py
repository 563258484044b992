"""Which runs can be differentially private; others are refused with the reason."""

from collections.abc import Collection, Iterator

from curvfed.strategies.config.run_config import RunConfig

NOT_IMAGES = (
    "a data set of images: the nodes of a graph are in the gradients of their neighbours, and graph"
    " networks give no gradients of single graphs"
)


def privacy_conflict(config: RunConfig, tasks: Collection[str]) -> tuple[str, str]:
    """The keys that do not fit together with `dp.unit`, separated by spaces, and what is allowed;
    ("", "") if all do.

    Parameters
    ----------
    config : RunConfig
        With its defaults resolved.
    tasks : collection of str
        The possible tasks of the data.
    """
    privacy = config.dp
    if privacy.unit == "none":
        return ("dp.epsilon dp.unit", "dp.unit = record or client") if privacy.epsilon else ("", "")
    if privacy.epsilon is None:
        return "dp.epsilon dp.unit", "a number for dp.epsilon"
    if privacy.unit == "client":
        return "dp.unit", "none and record"
    return next(_conflicts_of_records(config, tasks), ("", ""))


def _conflicts_of_records(config: RunConfig, tasks: Collection[str]) -> Iterator[tuple[str, str]]:
    """Conflicts with `dp.unit = record`."""
    if "images" not in tasks:
        yield "dp.unit dataset", NOT_IMAGES
    if not _hides_records(config):
        yield (
            "dp.unit method",
            "a method whose clients use their examples in steps on a mean over examples alone, such"
            " as fedavg, fedprox, fedopt, fednova, scaffold, feddyn, fedbabu, fedper, lg-fedavg",
        )
    if config.network.objective.get("mixup"):
        yield (
            "dp.unit method",
            "no mixed images, whose loss is one of two examples: hyperfed.mixup = 0",
        )
    if config.calibration is not None:
        yield "dp.unit method", "a method without a calibration, whose sums are not private"
    if config.aggregation == "consistent":
        yield (
            "dp.unit aggregation",
            "another aggregation: consistent weighs clients by products of their updates, which are"
            " mostly noise",
        )
    if config.images.norm == "batch":
        yield (
            "dp.unit images.norm",
            "images.norm = group: batch normalisation has no gradients of single examples",
        )
    if config.mixed_precision:
        yield "dp.unit mixed-precision", "mixed-precision = false"
    if config.fine_tunes:
        yield (
            "dp.unit fine-tune-epochs fine-tune",
            "fine-tune-epochs = 0: of a fine-tuned model only scores leave a client, and scores are"
            " not private",
        )
    if config.early_stopping:
        yield (
            "dp.unit early-stopping",
            "early-stopping = 0: validation scores do not leave the clients",
        )
    if config.share_statistics:
        yield "dp.unit share-statistics", "share-statistics = false"


def _hides_records(config: RunConfig) -> bool:
    from curvfed.strategies.config.build_method import learner_class

    row = config.row
    return not row.is_one_shot and "hides_records" in vars(learner_class(row))

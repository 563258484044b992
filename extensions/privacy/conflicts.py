"""Refuses runs that cannot be differentially private, with the reason."""

from collections.abc import Collection, Iterator

from curvfed.extensions.privacy.keys import Privacy, keys_of
from curvfed.extensions.privacy.plan import sums_once
from curvfed.strategies.base.calibration import MAX_REACH
from curvfed.strategies.base.shared_tables import NEED_ONLY_MEAN
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins

MIN_CLIENTS = 100
"""Minimum number of members of a sum that hides each of them."""

SHARES = "secure-sum = true: each client adds a share of the noise inside the sum"

PRIVATE_TASKS = ("images", "graphs")
"""The tasks with gradients of single examples."""

NOT_INDEPENDENT = (
    "a data set of images or whole graphs: the nodes of a graph are in the gradients of their"
    " neighbours, and points and links have no private steps"
)


def privacy_conflicts(config: RunConfig, tasks: Collection[str]) -> Iterator[tuple[str, str]]:
    """The keys that do not fit together with `dp.unit`, separated by spaces, and the allowed
    values.

    Parameters
    ----------
    config : RunConfig
        With its defaults resolved.
    tasks : collection of str
        The possible tasks of the data.
    """
    privacy = keys_of(config)
    if privacy.clip_quantile is not None and privacy.unit != "client":
        yield "dp.clip-quantile dp.unit", "dp.unit = client, whose updates have the lengths"
    if privacy.unit == "none":
        if privacy.epsilon:
            yield "dp.epsilon dp.unit", "dp.unit = record or client"
        return
    if privacy.epsilon is None:
        yield "dp.epsilon dp.unit", "a number for dp.epsilon"
    if privacy.unit == "client":
        yield from _conflicts_of_clients(config)
    elif sums_once(config):
        yield from _conflicts_of_sums(config)
    else:
        yield from _conflicts_of_records(config, tasks)
    yield from _conflicts_of_figures(config)


def check_enough_clients(privacy: Privacy, number: int) -> None:
    """Refuse to hide single clients in a sum of fewer than `MIN_CLIENTS` members.

    Raises
    ------
    ConfigError
    """
    if privacy.unit == "client" and number < MIN_CLIENTS and not privacy.force:
        raise ConfigError(
            f"dp.unit = client with {number} clients in a sum: the noise that hides one of them"
            f" is larger than the mean of so few; allowed are {MIN_CLIENTS} or more, of which 1,000"
            " make a useful model, or dp.force = true",
            key="too-few-to-hide",
        )


def _conflicts_of_records(config: RunConfig, tasks: Collection[str]) -> Iterator[tuple[str, str]]:
    """Conflicts with `dp.unit = record`."""
    from curvfed.strategies.config.build_method import learner_class

    if not set(tasks).intersection(PRIVATE_TASKS):
        yield "dp.unit dataset", NOT_INDEPENDENT
    if config.model and plugins.is_model(config.model) and "images" not in tasks:
        yield (
            "dp.unit model",
            "a built-in network: those of other packages give no gradients of single graphs",
        )
    if not learner_class(config.row).hides_records:
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
    if config.calibrator is not None:
        yield from _conflicts_of_sums(config)
    if config.aggregation == "consistent":
        yield (
            "dp.unit aggregation",
            "another aggregation: consistent weighs clients by products of their updates, which are"
            " mostly noise",
        )
    if config.network.options.get("norm") == "batch":
        yield "dp.unit method", "a method without batch normalisation"
    if config.images.norm == "batch":
        yield (
            "dp.unit images.norm",
            "images.norm = group: batch normalisation has no gradients of single examples",
        )
    if config.mixed_precision:
        yield "dp.unit mixed-precision", "mixed-precision = false"


def _conflicts_of_the_open(config: RunConfig) -> Iterator[tuple[str, str]]:
    """A conflict where shares of the noise would not be in a secure sum."""
    if not config.secure_sum:
        yield "dp.unit secure-sum", SHARES


def _conflicts_of_sums(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Conflicts with `dp.unit = record` in a run of one secure sum."""
    from curvfed.strategies.config.one_shot import client_class

    yield from _conflicts_of_the_open(config)
    if config.row.is_one_shot:
        half = client_class(config)
        if not half.hides_records:
            yield (
                "dp.unit method",
                "a method whose sums a single record changes little: hull, discriminant, or"
                " spherefed and ccvr",
            )
        yield from half.conflicts(config.own_keys)
    if keys_of(config).clip > MAX_REACH:
        yield "dp.unit dp.clip", f"dp.clip <= {MAX_REACH:g}, the length of features in the sums"


def _conflicts_of_clients(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Conflicts with `dp.unit = client`."""
    row = config.row
    yield from _conflicts_of_the_open(config)
    if row.is_one_shot or config.calibrator is not None:
        yield "dp.unit method", "a method that trains in rounds, without a calibration"
    elif not _shares_parameters_alone(config):
        yield "dp.unit method", "a method whose clients share parameters and nothing else"
    if config.aggregation not in ("average", "fedopt", *NEED_ONLY_MEAN):
        yield (
            "dp.unit aggregation",
            f"one of average, fedopt, {', '.join(NEED_ONLY_MEAN)}, which need the mean alone",
        )
    if config.weights != "uniform":
        yield "dp.unit weights", "weights = uniform: numbers of examples are not private"


def _shares_parameters_alone(config: RunConfig) -> bool:
    from curvfed.strategies.base.learner import Learner
    from curvfed.strategies.config.build_method import learner_class

    learner = learner_class(config.row)
    is_plain = learner.share is Learner.share
    return is_plain and not (learner.reports_statistics or learner.lists_clients)


def _conflicts_of_figures(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Conflicts with every `dp.unit`: figures that would leave the clients, and sums that would
    cost anew."""
    if config.calibration_every and config.calibrator is not None:
        yield (
            "calibration-every dp.unit",
            "calibration-every = 0: of private sums a run has one calibration",
        )
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

"""Checks that the keys of a configuration fit its data set, and its method on these data."""

from collections.abc import Sequence
from pathlib import Path

from curvfed.strategies.base.run_keys import AGGREGATION_METHODS
from curvfed.strategies.base.shared_tables import NEED_ONLY_MEAN
from curvfed.strategies.config.checks import conflict
from curvfed.strategies.config.run_config import (
    RunConfig,
    aggregation_row,
    resolve_defaults,
    server_row,
)
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS, listed
from curvfed.tasks import plugins, shipped
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import CORE, FORMATS, UNLABELLED
from curvfed.tasks.kinds import FEATURES, KINDS, tasks_as
from curvfed.tasks.registry import GENERATED, decision_of, partitioned_kind, tasks_of


def check_data(config: RunConfig) -> None:
    """Check the data set and the keys that depend on it."""
    tasks = _tasks(config)
    method = config.row
    if config.images.encoder:
        _check_encoder(config)
    # A run on real nodes, which have their own data, may leave the built-in data set named: any
    # task is possible then.
    possible = method.tasks if config.dataset in GENERATED else tasks
    _check_model(config, tasks, possible)
    check_partition(config, tasks, possible)
    task = tasks[0]
    resolved = resolve_defaults(config, task)
    if (
        resolved.aggregation == "flower:QFedAvg"
        and resolved.learning_rate == 0
        and resolved.flower.client_learning_rate is None
    ):
        raise conflict(
            resolved,
            "learning-rate aggregation",
            "learning-rate > 0, by which QFedAvg divides, or flower.client-learning-rate",
        )
    _check_guards(resolved, possible)
    if config.calibration == "ffc":
        _check_calibration(resolved, possible)
    if config.calibration_every:
        _check_calibrations(resolved)
    # A half that is not imported yet, which may take seconds, is not asked.
    if getattr(server_row(resolved).server, "plain_sgd", False):
        _check_plain_sgd(resolved, task)
    if config.secure_sum:
        check_secure_sum(resolved)
    if len(tasks) == 1 and not KINDS[task].has_validation:
        if config.train_size is not None:
            raise conflict(
                config, "train-size dataset", "train-size = auto, all points that test-size leaves"
            )
        _check_points(resolved)
    if resolved.embedding_dim == 0 and not any(KINDS[name].has_shape for name in possible):
        raise conflict(resolved, "embedding-dim dataset", "embedding-dim >= 1 without images")
    if resolved.embedding_dim == 0 and _is_fixed(resolved, possible):
        raise conflict(
            resolved,
            "embedding-dim model method",
            "embedding-dim >= 1, or num-rounds = 0 and fine-tune-epochs = 0: nothing else of this"
            " network is trained",
        )
    if config.images.pooled and config.images.test_subset and config.test_data == "auto":
        raise conflict(config, "images.pooled images.test-subset", "one of them")
    if resolved.train_size + resolved.test_size > 1:
        raise conflict(resolved, "train-size test-size", "a sum of at most 1")


def _check_guards(config: RunConfig, possible: Sequence[str]) -> None:
    """Refuse keys that do not fit a guard, and two guards; `config` has its defaults resolved."""
    guards = config.guards
    for guard in guards:
        for keys, allowed in guard.conflicts(possible):
            raise conflict(config, keys, allowed)
    tables = [guard.table for guard in guards if guard.is_private]
    if len(tables) > 1:
        raise ConfigError(
            f"keys of {' and '.join(tables)}: allowed is one of these guards", key="guards"
        )


def tasks_of_dataset(dataset: str, data_dir: Path) -> Sequence[str]:
    """The tasks of a data set; a path is looked up in the working folder, then in `data_dir`.

    Raises
    ------
    ConfigError
        If the data set does not exist.
    """
    try:
        return tasks_of(dataset, data_dir)
    except ValueError as error:
        raise ConfigError(f'dataset = "{dataset}": {error}', key="no-data-set") from None


def _tasks(config: RunConfig) -> Sequence[str]:
    """The tasks of the configured data set."""
    method = config.row
    tasks = tasks_as(tasks_of_dataset(config.dataset, config.data_path), method.tasks)
    if not set(tasks) & set(method.tasks):
        decision = decision_of(config.dataset, config.data_path)
        reason = f" ({decision.reason})" if decision else ""
        kind = KINDS[method.tasks[0]]
        readable = " or ".join((*method.tasks, *kind.made_of))
        form = next(form for form in (*CORE, *FORMATS) if form.tasks[0] in method.tasks)
        lister = plugins.lister("datasets")
        where = f"; {lister} lists names and files of each kind" if lister else ""
        fitting = [name for name, row in listed().items() if set(row.tasks) & set(tasks)]
        other = f", or method={fitting[0]}" if fitting else ", or another method"
        if decision and decision.form is UNLABELLED:
            other = ""  # no method trains on it
        raise ConfigError(
            f'dataset = "{config.dataset}" is read as {" or ".join(tasks)}{reason}, but method ='
            f' "{config.method}" works on {" and ".join(method.tasks)}: allowed is a data set of'
            f" {readable}, such as {kind.built_in} or {form.title}{other}{where}"
            f"{plugins.absent_hint(*shipped.DATA, shipped.METHOD_FOLDERS)}",
            key="dataset-with-method",
        )
    return tasks


def _check_encoder(config: RunConfig) -> None:
    """Refuse a frozen network that no package here can have, and keys that describe pixels."""
    if not plugins.additions(plugins.ENCODERS):
        raise ConfigError(
            f'images.encoder = "{config.images.encoder}": no package here has frozen networks'
            f"{plugins.absent_hint(plugins.ENCODERS)}",
            key="no-encoder",
        )
    if config.model not in (None, FEATURES):
        raise conflict(config, "model images.encoder", f"model = auto or {FEATURES}")
    if config.images.augment == "crop-flip":
        raise conflict(
            config,
            "images.augment images.encoder",
            "images.augment = auto or none: features are computed once, from the images as they"
            " are",
        )


def _is_fixed(config: RunConfig, possible: Sequence[str]) -> bool:
    """Whether a run would train a network of images without any parameter but a fixed classifier;
    `config` has its defaults resolved."""
    from curvfed.strategies.config.build_method import encoder

    is_trained = config.num_rounds > 0 or config.fine_tune_epochs > 0
    is_fixed = config.network.head_from != "training"
    models = {encoder(config, name) for name in possible if KINDS[name].has_shape}
    return is_trained and is_fixed and FEATURES in models


def _check_model(config: RunConfig, tasks: Sequence[str], possible: Sequence[str]) -> None:
    """Refuse a model that no possible task has."""
    models = {name for task in possible for name in KINDS[task].models}
    if config.model is None or config.model in models:
        return
    names = ["auto"]
    packages = ""
    if models:
        if plugins.is_model(config.model):
            _check_foreign_model(config)
            return
        names += [*sorted(models), *plugins.registered("models")]
        packages = f', or "package.module:factory"; its package {plugins.EVERYWHERE}'
    raise ConfigError(
        f'model = "{config.model}": allowed for data sets of {" or ".join(tasks)} is one of'
        f" {', '.join(names)}{packages}",
        key="no-such-model",
    )


def check_partition(config: RunConfig, tasks: Sequence[str], possible: Sequence[str]) -> None:
    """Refuse a partition that no possible task has.

    Raises
    ------
    ConfigError
    """
    kinds = [partitioned_kind(task, config.dataset, config.data_path) for task in possible]
    allowed = sorted({name for kind in kinds for name in KINDS[kind].partitions})
    if config.partition not in (None, *allowed):
        raise ConfigError(
            f'partition = "{config.partition}": allowed for data sets of {" or ".join(tasks)} is'
            f" one of auto, {', '.join(allowed)}",
            key="no-such-partition",
        )


def _check_calibration(config: RunConfig, possible: Sequence[str]) -> None:
    """Refuse the closed form unless all clients share a linear classifier."""
    from curvfed.strategies.config.build_method import server_class

    if not any(KINDS[name].has_shape for name in possible):
        raise conflict(
            config, "calibration dataset", "calibration = auto or none: it is of images alone"
        )
    row = config.row
    network = config.network
    is_linear = row.has_network and (network.head == "linear" or network.calibration)
    # Where parameters are personal, the features of no client are those of the global model.
    is_shared = network.head_from != "client" and not row.personal
    if not is_linear or not is_shared or not server_class(row).is_global:
        raise conflict(
            config,
            "calibration method",
            "a method with one model for all clients, whose classifier is linear, such as fedavg,"
            f" fedprox or spherefed{plugins.absent_hint(shipped.METHOD_FOLDERS)}",
        )


def _check_calibrations(config: RunConfig) -> None:
    """Refuse several calibrations without a calibration; `config` has its defaults resolved."""
    from curvfed.strategies.base.aggregation import Average
    from curvfed.strategies.config.build_method import server_class

    if config.calibrator is None:
        raise conflict(
            config, "calibration-every calibration", "calibration = ffc, or calibration-every = 0"
        )
    if server_class(server_row(config)).state is not Average.state:
        raise conflict(
            config,
            "calibration-every aggregation",
            "an aggregation that keeps nothing of the classifier, such as average",
        )


def _check_foreign_model(config: RunConfig) -> None:
    """Refuse keys that need to separate the classifier of another package's model from its body."""
    network = config.network
    is_fixed = network.head != "linear" or network.head_from != "training"
    if is_fixed or config.calibrator or network.separates_head:
        raise conflict(
            config, "model method", "a model of curvfed's, whose classifier is a separate layer"
        )
    if config.fine_tune == "head":
        raise conflict(config, "fine-tune model", "fine-tune = auto, trained or all")


def _check_plain_sgd(config: RunConfig, task: str) -> None:
    """Refuse another optimiser than SGD without earlier momentum: the aggregation infers gradients
    from its steps."""
    # the first and last layers of a network, where the clients' features differ
    has_personal = config.row.personal or KINDS[task].has_spaces
    is_kept = config.optimizer_state == "kept" or (
        config.optimizer_state == "personal" and has_personal
    )
    if config.optimizer != "sgd" or is_kept:
        raise conflict(
            config,
            "optimizer optimizer-state method",
            f'optimizer="sgd" optimizer-state="fresh" with {config.aggregation}',
        )


def check_secure_sum(config: RunConfig) -> None:
    """Refuse samples of clients, an aggregation that needs single updates, and sums that show those
    of some members; `config` has its defaults resolved.

    Raises
    ------
    ConfigError
    """
    row = config.row
    if config.fraction_train < 1 and not row.is_one_shot:
        raise conflict(
            config,
            "secure-sum fraction-train",
            "fraction-train = 1, for sums over other clients in each round would show their"
            " differences",
        )
    if getattr(server_row(config).server, "equal_steps", False) and config.batch_size:
        raise conflict(
            config,
            "secure-sum method batch-size",
            "batch-size = 0, all examples in a step: two sums, of updates and of these over their"
            " steps, would show the updates of members with other numbers of steps",
        )
    is_own = config.aggregation == row.aggregation
    needed = row.summed_clients(config.own_keys, config)
    if is_own and needed != "none":
        return
    if needed == "own":
        raise conflict(
            config,
            "secure-sum method aggregation",
            f"aggregation = {row.aggregation}: the method's clients prepare the sum for it",
        )
    methods = AGGREGATION_METHODS.items()
    allowed = [name for name, method in methods if METHODS[method].summed_clients() == "any"]
    allowed += NEED_ONLY_MEAN
    if aggregation_row(row.aggregation) is None:
        raise conflict(
            config, "secure-sum method", "secure-sum = false, for its server uses single replies"
        )
    if config.aggregation not in allowed:
        raise conflict(
            config,
            "secure-sum method aggregation",
            f"an aggregation that needs only the sum of the updates: {', '.join(allowed)}",
        )


def _check_points(config: RunConfig) -> None:
    """Check the keys of points in the disc, and the method's own with them; `config` has its
    defaults resolved."""
    from curvfed.tasks.points.dataset import PointDataset

    try:
        num_kept = len(PointDataset.of_run(config).spec.selected_classes)
    except DataError as error:
        raise ConfigError(str(error), key="points") from None
    if num_kept == 1:
        raise conflict(config, "points.classes", "2 classes or more")
    if num_kept and config.num_public_classes not in (None, num_kept):
        raise conflict(
            config,
            "hull.num-classes points.classes",
            f"hull.num-classes = auto or {num_kept}, the number of these classes",
        )
    if "hull" in config.row.keys:
        for keys, allowed in config.table("hull").conflicts_with(config.points, num_kept):
            raise conflict(config, keys, allowed)

"""Checks that the keys of a configuration fit together."""

import errno
from collections.abc import Iterable, Sequence
from pathlib import Path

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import Table, kebab
from curvfed.strategies.base.method import ONE_SHOT
from curvfed.strategies.base.shared_tables import FLOWER, NEED_ONLY_MEAN
from curvfed.strategies.config.run_config import BUILT_IN, HOMES, RunConfig, settled
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.names import MODELS, OWN, tasks_of

BASES = ("average", *HOMES, *FLOWER)
"""Aggregations with one model for all clients; a method with one of them can use any other."""

SUMMED = ("average", "fedopt", "scaffold", "feddyn", "interpolated", *NEED_ONLY_MEAN)
"""The aggregations that need the mean of the updates alone."""

OWN_CLIENTS = ("fednova", "noisy-average", ONE_SHOT)
"""Those that need it of what their own method's clients make."""

_SHOWN = 80
"""Characters of an impossible path that an error shows."""

OF_SGD = ("fednova", "scaffold")
"""Aggregations that assume SGD whose momentum starts at zero in every round."""


def check_method(config: RunConfig) -> None:
    """Keys that only some methods use."""
    method = config.row
    if method.sparsity and config.model not in (None, "gcn", "gin"):
        raise ConfigError(
            f'model = "{config.model}": allowed with method = "{config.method}" is one of auto,'
            " gcn, gin"
        )
    if config.aggregation is not None and method.aggregation not in BASES:
        raise ConfigError(
            f'aggregation = "{config.aggregation}": allowed with method = "{config.method}" is'
            " auto, its own"
        )
    _check_flower(config)
    if config.fine_tune in ("all", "head") and method.tunes_own_network:
        raise ConfigError(
            f'fine-tune = "{config.fine_tune}": allowed with method = "{config.method}" is auto or'
            " trained, its own network"
        )
    if config.batch_size and method.whole_graph:
        raise ConfigError(
            f'batch-size = {config.batch_size}: allowed with method = "{config.method}", which'
            " looks at all nodes of a client's graph at once, is auto or 0"
        )
    if config.fine_tune == "closed-form" and method.head != "sphere":
        raise ConfigError(
            'fine-tune = "closed-form": allowed with a classifier on the sphere, such as'
            f' spherefed\'s; method = "{config.method}" has none'
        )


def _check_flower(config: RunConfig) -> None:
    """Each of Flower's strategies uses only some keys of the table `flower`."""
    known = FLOWER.get(config.aggregation, ())
    for name, value in config.flower:
        if value is not None and name not in known:
            own = ", ".join(f"flower.{kebab(one)}" for one in known) or "no key of this table"
            raise ConfigError(
                f"flower.{kebab(name)} = {value}: allowed with aggregation ="
                f' "{config["aggregation"]}" is {own}'
            )


def check_paths(config: RunConfig) -> None:
    """The keys that are paths; `dataset` may be one."""
    for key in ("dataset", "data-dir", "results-dir", "test-data", "init-from"):
        path = str(config[key] or "")
        try:
            Path(path).expanduser().stat()
        # no such user; an impossible name; not there
        except (RuntimeError, ValueError, OSError) as error:
            if getattr(error, "errno", None) in (errno.ELOOP, errno.ENAMETOOLONG, None):
                reason = getattr(error, "strerror", None) or str(error).rstrip(".").lower()
                shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"
                what = "a name or a path" if key == "dataset" else "a path"
                raise ConfigError(
                    f"{key} = {shown!r}: allowed is {what} that can exist ({reason})"
                ) from None


def check_data(config: RunConfig) -> None:
    """The data set, and the keys that depend on it."""
    try:
        tasks = tasks_of(config.dataset)
    except ValueError as error:
        raise ConfigError(f'dataset = "{config.dataset}": {error}') from None
    method = config.row
    if not set(tasks) & set(method.tasks):
        kinds = (
            "; a file is read by its ending: .pt as graphs, others as points"
            if Path(config.dataset).suffix
            else ""
        )
        raise ConfigError(
            f'dataset = "{config.dataset}" is a data set of {" or ".join(tasks)}, method ='
            f' "{config.method}" works on '
            f"{' and '.join(method.tasks)}; allowed is a data set of these or another method{kinds}"
        )
    if config.dataset.lower() == OWN:
        tasks = method.tasks
    # A run on real nodes, which have their own data, may leave the built-in data set named: any
    # task is possible then.
    possible = method.tasks if config.dataset in BUILT_IN.values() else tasks
    models = {name for task in possible for name in MODELS[task]}
    takes_others = bool(models)
    if config.model is None:
        pass
    elif takes_others and plugins.is_model(config.model):
        _check_brought_model(config)
    elif config.model not in models:
        names = (
            ["auto", *sorted(models), *plugins.registered("models")] if takes_others else ["auto"]
        )
        others = f', or "package.module:factory"; {plugins.EVERYWHERE}' if takes_others else ""
        raise ConfigError(
            f'model = "{config.model}": allowed for data sets of {" or ".join(tasks)} is one of'
            f" {', '.join(names)}{others}"
        )
    if config.partition is not None:
        _check_partition(config.partition, tasks, possible)
    task = next(task for task in tasks if task in method.tasks)
    chosen = settled(config, task)
    if (
        chosen.aggregation == "flower:QFedAvg"
        and chosen.learning_rate == 0
        and chosen.flower.client_learning_rate is None
    ):
        raise ConfigError(
            'learning-rate = 0: allowed with aggregation = "flower:QFedAvg", which divides by it,'
            " is a number > 0, or flower.client-learning-rate beside it"
        )
    if chosen.aggregation in OF_SGD:
        _check_from_rest(chosen, task)
    if config.secure_sum:
        _check_secure_sum(chosen)
    if config.secure.fixed_groups:
        _check_groups(chosen)
    if tasks == ("points",):
        if config.train_size is not None:
            raise ConfigError(
                f"train-size = {config.train_size}: allowed for data sets of points is auto, for"
                " what is not in the share test-size is trained on"
            )
        _check_points(chosen)
    if chosen.embedding_dim == 0 and "images" not in possible:
        raise ConfigError(
            f"embedding-dim = 0: allowed for data sets of {' or '.join(tasks)} is a width of 1 or"
            " more"
        )
    if chosen.train_size + chosen.test_size > 1:
        raise ConfigError(
            f"train-size = {chosen.train_size} and test-size = {chosen.test_size}: allowed is a sum"
            " of at most 1"
        )


def _check_partition(name: str, tasks: Sequence[str], possible: Sequence[str]) -> None:
    """The partition must be one of those for the data set's tasks."""
    from curvfed.tasks.graphs.data.partition import PARTITIONS as OF_GRAPHS
    from curvfed.tasks.images.label_partition import PARTITIONS as OF_IMAGES
    from curvfed.tasks.points.partition import PARTITIONS as OF_POINTS

    known: dict[str, Iterable[str]] = {
        "nodes": OF_GRAPHS,
        "graphs": OF_GRAPHS,
        "images": OF_IMAGES,
        "points": OF_POINTS,
    }
    allowed = sorted({one for task in possible for one in known[task]})
    if name not in allowed:
        raise ConfigError(
            f'partition = "{name}": allowed for data sets of {" or ".join(tasks)} is one of auto,'
            f" {', '.join(allowed)}"
        )


def _check_brought_model(config: RunConfig) -> None:
    """In a model of another package the classifier cannot be told from the other layers."""
    method = config.row
    fixed = method.head != "linear" or method.head_from != "training"
    if fixed or method.after or method.reads_classifier:
        raise ConfigError(
            f'model = "{config.model}": allowed with method = "{config.method}", which looks at the'
            " classifier by itself, is a model of curvfed's"
        )
    if config.fine_tune == "head":
        raise ConfigError(
            f'fine-tune = "head": allowed with model = "{config.model}" is auto, trained or all'
        )


def _check_from_rest(config: RunConfig, task: str) -> None:
    """FedNova and SCAFFOLD infer gradients from the steps of SGD without earlier momentum; no other
    optimiser fits."""
    # the ends of a network, where the clients' features differ
    some_stay = config.row.personal or task == "graphs"
    keeps = config.optimizer_state == "kept" or (config.optimizer_state == "personal" and some_stay)
    if config.optimizer != "sgd" or keeps:
        raise ConfigError(
            f'optimizer = "{config.optimizer}" and optimizer-state = "{config["optimizer-state"]}"'
            f' with method = "{config.method}": allowed with {config.aggregation} is sgd that'
            ' starts afresh every round (optimizer="sgd" optimizer-state="fresh")'
        )


def _check_secure_sum(config: RunConfig) -> None:
    """What the server can compute from a sum of updates; `config` is settled."""
    able = (*SUMMED, *OWN_CLIENTS) if config.aggregation == config.row.aggregation else SUMMED
    if config.aggregation not in able:
        raise ConfigError(
            f'secure-sum = true with method = "{config.method}" and aggregation ='
            f' "{config.aggregation}": allowed is one '
            f"whose equations are linear in the updates, {' or '.join(SUMMED)}; this one looks at"
            " each client's parameters"
        )


def _check_groups(config: RunConfig) -> None:
    """Groups that always sum together: of all clients, and with all their members."""
    wanted = (
        ("fraction-train", config.fraction_train, 1.0),
        ("secure.threshold", config.secure.threshold or "auto", "auto"),
    )
    for key, value, allowed in wanted:
        if value != allowed:
            raise ConfigError(
                f"secure.fixed-groups = true and {key} = {value}: allowed is {allowed}, for a group"
                " sums with all its members or not at all"
            )


def _check_points(config: RunConfig) -> None:
    """Keys of points in the disc and of the hull protocol; `config` is settled."""
    from curvfed.geometry.quantizer import PoincareQuantizer
    from curvfed.strategies.config.point_data import point_spec

    keys = config.table("hull")
    try:
        spec = point_spec(config, config.points)
        kept = spec.kept
    except DataError as error:
        raise ConfigError(str(error)) from None
    named = f'"{config.points.classes}"'
    for key, value, number in (
        ("hull.num-classes", keys.num_classes, keys.num_classes),
        ("points.classes", named, len(kept)),
    ):
        if number == 1:
            raise ConfigError(f"{key} = {value}: allowed are 2 classes or more")
        if number is not None and number > 2 and keys.grouping == "kernighan-lin":
            raise ConfigError(
                f'hull.grouping = "kernighan-lin" and {key} = {value}: allowed are 2 classes'
            )
    if kept and keys.num_classes not in (None, len(kept)):
        raise ConfigError(
            f"hull.num-classes = {keys.num_classes} and points.classes = {named}: allowed are auto"
            f" and the number of these, {len(kept)}"
        )
    if keys.svm == "hard" and keys.c is not None:
        raise ConfigError(
            f'hull.svm = "hard" and hull.c = {keys.c}: allowed is hull.c = auto, for a hard margin'
            " has no cost"
        )
    if keys.svm == "hard" and keys.classifier != "svm":
        raise ConfigError(
            f'hull.svm = "hard" and hull.classifier = "{keys.classifier}": allowed is'
            ' hull.classifier = "svm"'
        )
    try:
        PoincareQuantizer(keys.epsilon, keys.radius / (-spec.curvature) ** 0.5, spec.curvature)
    except ValueError as error:
        raise ConfigError(
            f"hull.epsilon = {keys.epsilon}: not allowed with hull.radius = {keys.radius} and"
            f" points.curvature = {spec.curvature}: {error}"
        ) from None


def check_together(config: RunConfig) -> None:
    """All other conditions on several keys."""
    for key, number in (
        ("threshold", config.secure.threshold),
        ("neighbours", config.secure.neighbours),
    ):
        if number is not None and not config.is_masked:
            raise ConfigError(
                f"secure.{key} = {number}: allowed with secure-sum = true, without which nothing is"
                " masked"
            )
    for value in dict(config).values():
        if isinstance(value, Table) and (reason := value.conflict()):
            raise ConfigError(reason)
    # which is not told again: it is in files and messages that others read
    if "@" in config.mlflow.tracking_uri:
        raise ConfigError(
            "mlflow.tracking-uri has an @: allowed is an address without user and password, which"
            " MLflow takes from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD where the"
            " server runs"
        )
    if config.wire_precision != "float32" and config.is_masked:
        raise ConfigError(
            f'wire-precision = "{config.wire_precision}": allowed without secure sums (secure-sum ='
            " false, another method than hull), whose numbers need their 61 bits: of 31, the"
            " examples, secure.clip and the clients leave too few"
        )
    if config.init_from and config.row.is_one_shot:
        raise ConfigError(
            f'init-from: allowed with a method of rounds; method = "{config.method}" starts from no'
            " model"
        )
    if config.resume and not config.run_name:
        raise ConfigError(
            'resume = true needs run-name, the name of the run to go on with; it is ""'
        )

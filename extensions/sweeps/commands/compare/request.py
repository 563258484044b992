"""Read a comparison from `key=value` arguments, and refuse it if no machine can make it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.arguments import (
    Request,
    UsageError,
    Value,
    check_request,
    pop_count,
    read_pairs,
)
from curvfed.deployments.preflight import look_for_notes, notes_on_method
from curvfed.extensions.sweeps.commands.compare import (
    ALTERNATIVES,
    METHODS_BY_TASK,
    OWN_KEYS,
    RIVALS,
)
from curvfed.extensions.sweeps.commands.compare.comparison import COMMAND, Comparison, Entrant
from curvfed.extensions.sweeps.commands.compare.entrants import EntrantReader, leaves_validation
from curvfed.extensions.sweeps.commands.pages import SCORES
from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES
from curvfed.extensions.sweeps.commands.sweep import DEFAULTS, combinations, data_places, plan_run
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS, foreign_methods
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins
from curvfed.tasks.class_names import row_of
from curvfed.tasks.errors import near_names
from curvfed.tasks.kinds import KINDS

MINIMA = {SUPERNODES: 1, "budget": 1, "tuning-seeds": 1, "seeds": 2}

UNTUNED = ("method", "dataset", "data-dir", "seed", "learning-rate", *OWN_KEYS)
"""Keys that cannot have several values; the learning rate is always tuned unless it is set."""

VALIDATION_SHARE = 0.1
"""Validation share of a client's images if no sizes are set; the default of a run is none."""

METHOD = "method; allowed are names of methods and rivals with commas between, auto, or all"
"""The meaning of a name in `methods`, and the form of the key."""


def read_comparison(pairs: Sequence[str], data: Path | None) -> Comparison:
    """Read the arguments, look at the data, and choose the configurations to try.

    Raises
    ------
    UsageError, ConfigError
    """
    keys = DEFAULTS | OWN_KEYS
    alternatives, single = _alternatives(pairs, keys)
    settings = read_pairs(single, keys)
    numbers = {key: pop_count(settings, key, keys[key], minimum) for key, minimum in MINIMA.items()}
    num_supernodes = numbers.pop(SUPERNODES)
    score = str(settings.pop("score", OWN_KEYS["score"]))
    against = str(settings.pop("against", OWN_KEYS["against"]))
    allowed_scores = (AUTO, *SCORES)
    _check_name(
        score, allowed_scores, f"score; allowed is one of {row_of(allowed_scores)}", "score"
    )
    methods = _pop_methods(settings, pairs)
    requested = _requested(methods)
    data_dir = _pop_path(settings, "data-dir")
    results = _pop_path(settings, "results-dir")
    places = data_places(data_dir if data is None else data)
    next(combinations(settings, COMMAND))
    first_method = _rivals().get(requested[0], {"method": requested[0]}) if requested else FIRST
    settings |= plan_run({**settings, **first_method}, COMMAND).paths
    request = check_request({**settings, **places, **first_method}, num_supernodes)
    task, notes = _look_at_data(request)
    settings["dataset"] = request.config.dataset
    if KINDS[task].has_validation:
        _leave_validation(settings, request.resolved, task)
    score = _known_score(score, task, request.resolved)
    fixed = {key: value for key, value in settings.items() if key not in alternatives}
    _recall(fixed, task, score)
    reader = EntrantReader(task, fixed, alternatives, num_supernodes, score)
    entrants = _entrants(reader, methods, requested)
    if against != AUTO:
        flat = [AUTO, *(name for name, entrant in entrants.items() if entrant.is_rival)]
        words = f"flat one of the compared methods; allowed is one of {row_of(flat)}"
        _check_name(against, flat, words, "against")
    comparison = Comparison(
        task=task,
        settings={**fixed, SUPERNODES: num_supernodes},
        places=places,
        numbers=numbers,
        score=score,
        entrants=entrants,
        against=against,
        notes=notes,
        results=results,
    )
    if not KINDS[task].has_classes and score == "personal":
        _check_scored(task, comparison.first_config, num_supernodes)
    return comparison


def _pop_methods(settings: dict[str, Value], pairs: Sequence[str]) -> str:
    """The value of `methods`; `method` stands for it, but that of a preset does not count.

    Raises
    ------
    UsageError
        If both are given.
    """
    method = settings.pop("method", "")
    is_explicit = any(pair.startswith("method=") for pair in pairs)
    if is_explicit and any(pair.startswith("methods=") for pair in pairs):
        raise UsageError(
            f'method = "{method}" beside methods = "{settings["methods"]}": allowed is one of them;'
            " methods names all that are compared, with commas between",
            key="methods",
        )
    return str(settings.pop("methods", method if is_explicit else OWN_KEYS["methods"]))


def _pop_path(settings: dict[str, Value], key: str) -> Path | None:
    value = settings.pop(key, None)
    return Path(str(value)).expanduser() if value else None


def _rivals() -> dict[str, Mapping[str, Any]]:
    """The rivals of all tasks, by name."""
    rivals: dict[str, Mapping[str, Any]] = {}
    for of_task in RIVALS.values():
        rivals |= of_task
    return rivals


def _requested(methods: str) -> list[str]:
    """The names of methods and rivals in `methods`; none for auto and all.

    Raises
    ------
    ConfigError
        If a name is unknown, or its package's method is left out.
    """
    if methods in (AUTO, "all"):
        return []
    what = f"{METHOD} ({plugins.all_names('methods', METHODS)})"
    requested = list(dict.fromkeys(methods.split(",")))
    for name in requested:
        if reason := foreign_methods()[1].get(name):
            raise ConfigError(f"methods: {name!r} is left out: {reason}", key="method-left-out")
        _check_name(name, [*METHODS, *_rivals()], what, "methods")
    return requested


def _look_at_data(request: Request) -> tuple[str, tuple[str, ...]]:
    """The task of the data, and their possible faults without those of the request's method."""
    notes, first_data = look_for_notes(request)
    if first_data is None:
        return request.task, tuple(notes)
    of_method = notes_on_method(request, first_data)
    return first_data.task, tuple(note for note in notes if note not in of_method)


def _recall(settings: dict[str, Value], task: str, score: str) -> None:
    """Set the keys that the score `reconstruction` needs, and refuse them with another score.

    Raises
    ------
    UsageError
    """
    for key, value in KINDS[task].comparison.recall.items():
        if score == "reconstruction":
            settings.setdefault(key, value)
        elif settings.get(key) == value:
            raise UsageError(
                f"{key} = {str(value).lower()}: allowed with score=reconstruction; score ="
                f' "{score}" ranks held-out {task}',
                key="no-held-out-links",
            )


def _entrants(reader: EntrantReader, methods: str, requested: Sequence[str]) -> dict[str, Entrant]:
    """The entrants by name. A method that cannot run with the keys is left out with a warning, but
    refused if it is requested.

    Raises
    ------
    ConfigError, UsageError
    """
    task = reader.task
    names = list(requested)
    if methods == AUTO:
        names = list(METHODS_BY_TASK[task])
    elif methods == "all":
        names = [name for name in METHODS if task in METHODS[name].tasks]
        names += RIVALS.get(task, {})
    entrants: dict[str, Entrant] = {}
    for name in names:
        try:
            for entrant_name, entrant in reader.entrants(name).items():
                entrants.setdefault(entrant_name, entrant)
        except ConfigError as error:
            if requested:
                raise
            log.warning("%s is left out: %s", name, error)
    if len(entrants) < 2:
        raise UsageError(
            f'methods = "{methods}": allowed are two or more, with commas between, auto or all',
            key="methods",
        )
    return entrants


def _check_scored(task: str, config: RunConfig, num_clients: int) -> None:
    """Refuse data of which no run would score a test example.

    Raises
    ------
    ConfigError
    """
    kind = KINDS[task]
    for client in range(num_clients):
        data: Any = load_data(config, Node(partition=client, num_partitions=num_clients))
        if kind.num_scored(data.statistics()):
            return
    raise ConfigError(f'dataset = "{config.dataset}": {kind.words.unscored}', key="unscored-links")


FIRST: Mapping[str, Value] = {"method": "local"}
"""The method by which the data are looked at if none is named: it runs on all of them."""


def _known_score(score: str, task: str, config: RunConfig) -> str:
    """The score, `auto` replaced, if the server can have it.

    Raises
    ------
    UsageError
    """
    kind = KINDS[task]
    if score == AUTO:
        return "personal" if kind.has_validation else "global"
    is_pooled = kind.has_shape and config.images.pooled
    if score == "global" and (not kind.reads_test_data or is_pooled):
        raise UsageError(
            'score = "global": allowed for images, points and links, of which the server has test'
            " data",
            key="score",
        )
    if score == "reconstruction" and not kind.comparison.recall:
        raise UsageError('score = "reconstruction": allowed for links', key="score")
    if score == "personal" and not kind.has_validation:
        raise UsageError('score = "personal": allowed for data of clients', key="score")
    return score


def _alternatives(
    pairs: Sequence[str], keys: Mapping[str, Value]
) -> tuple[dict[str, list[Value]], list[str]]:
    """The keys that have several values, and all pairs, these keys with their first value; `keys`
    has the defaults, whose types the values get."""
    several: dict[str, list[Value]] = {}
    single = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        values = text.split(ALTERNATIVES)
        if len(values) > 1 and key in UNTUNED:
            raise UsageError(f"{key} = {text!r}: allowed is one value", key="alternatives")
        if len(values) > 1:
            several[key] = [read_pairs([f"{key}={value}"], keys)[key] for value in values]
        single.append(f"{key}{equals}{values[0]}")
    return several, single


def _leave_validation(settings: dict[str, Value], config: RunConfig, task: str) -> None:
    """Leave a part of each client's examples for validation if no sizes are set, and refuse sizes
    that leave none."""
    if not leaves_validation(task) and "train-size" not in settings:
        settings["train-size"] = round(1 - VALIDATION_SHARE - config.test_size, 6)
    elif config.train_size + config.test_size > 1 - 1e-9:
        raise UsageError(
            f"train-size = {config.train_size} and test-size = {config.test_size}: allowed is a sum"
            " below 1, because validation, by which configurations are chosen, gets the rest",
            key="no-validation",
        )


def _check_name(name: str, known_names: Collection[str], what: str, key: str) -> None:
    """Refuse an unknown name, with the nearest known one.

    Raises
    ------
    ConfigError
    """
    if name not in known_names:
        near = near_names(name, known_names)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{key}: {name!r} is not a {what}{hint}", key="unknown-name")

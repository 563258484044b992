"""Read a comparison from `key=value` arguments, and refuse it if no machine can make it."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from curvfed.deployments.arguments import UsageError, Value, check_request, pop_count, read_pairs
from curvfed.deployments.compare import (
    ALTERNATIVES,
    DECAYS,
    METHODS_BY_TASK,
    MODELS,
    OWN_KEYS,
    SCORES,
)
from curvfed.deployments.preflight import look_at_data
from curvfed.deployments.sweep import DEFAULTS, combinations, data_places, plan_run
from curvfed.server_app.report.selection import known_name
from curvfed.server_app.report.study import SUPERNODES
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.run_log import log
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import is_points_file, source_of

COMMAND = Path("compare")
"""The source of the runs in error texts; relative paths are relative to the working folder."""

MINIMA = {SUPERNODES: 1, "budget": 1, "tuning-seeds": 1, "seeds": 2}

UNTUNED = ("method", "dataset", "data-dir", "seed", "learning-rate", *OWN_KEYS)
"""Keys that cannot have several values; the learning rate is always tuned unless it is set."""

VALIDATION = 0.1
"""Validation share of a client's images if no sizes are set; the default of a run is none."""


@dataclass(frozen=True)
class Entrant:
    """A method that is compared, or the flat twin of a method.

    Attributes
    ----------
    settings : dict
        `method`, and for some twins the keys that take away its curvature.
    rate : float
        The method's default learning rate.
    configurations : list of dict
        Values of the tuned keys but the learning rate, the defaults first.
    twin : str
        The name of its flat twin among the entrants; "" for none.
    """

    settings: dict[str, Any]
    rate: float
    configurations: list[dict[str, Any]]
    twin: str = ""


@dataclass(frozen=True)
class Comparison:
    """A comparison of methods.

    Attributes
    ----------
    settings : dict
        The keys of all runs, with `num-supernodes`.
    places : dict
        `data-dir`, which the results do not depend on.
    numbers : dict of str to int
        `budget`, `tuning-seeds` and `seeds`.
    score : str
        A key of `SCORES`.
    entrants : dict of str to Entrant
        By name; each has at most `budget` configurations, or its whole grid if that is smaller.
    """

    settings: dict[str, Value]
    places: dict[str, Value]
    numbers: dict[str, int]
    score: str
    entrants: dict[str, Entrant]

    @property
    def data(self) -> str:
        """The name of the data set, or of the user's file or folder."""
        return Path(str(self.settings["dataset"])).stem

    @property
    def plan(self) -> dict[str, Any]:
        """All keys that the results depend on, for JSON."""
        return {
            "methods": list(self.entrants),
            "score": self.score,
            **self.numbers,
            **self.settings,
            "tried": {name: asdict(entrant) for name, entrant in self.entrants.items()},
        }

    @property
    def seeds(self) -> tuple[range, range]:
        """The seeds for choosing configurations, and further ones for comparing methods."""
        first = int(self.settings.get("seed", DEFAULTS["seed"]))
        fresh = first + self.numbers["tuning-seeds"]
        return range(first, fresh), range(fresh, fresh + self.numbers["seeds"])


def read_comparison(pairs: Sequence[str], data: Path | None) -> Comparison:
    """Read the arguments, look at the data, and choose the configurations to try.

    Raises
    ------
    UsageError, ConfigError
    """
    keys = DEFAULTS | OWN_KEYS
    alternatives, single = _alternatives(pairs)
    settings = read_pairs(single, keys)
    numbers = {key: pop_count(settings, key, keys[key], minimum) for key, minimum in MINIMA.items()}
    num_supernodes = numbers.pop(SUPERNODES)
    method = settings.pop("method", "")
    score = str(settings.pop("score", OWN_KEYS["score"]))
    known_name(score, SCORES, f"score; allowed is one of {', '.join(SCORES)}", "score")
    # The method of a preset does not count.
    is_explicit = any(pair.startswith("method=") for pair in pairs)
    methods = str(settings.pop("methods", method if is_explicit else OWN_KEYS["methods"]))
    requested = [] if methods in ("auto", "all") else list(dict.fromkeys(methods.split(",")))
    for name in requested:
        known_name(name, METHODS, "method", "methods")
    data_dir = settings.pop("data-dir", None)
    if data is None and data_dir:
        data = Path(str(data_dir)).expanduser()
    places = data_places(data)
    next(combinations(settings, COMMAND))
    _check_dataset(str(settings.get("dataset", "auto")))
    first_method = {"method": (requested or METHODS_BY_TASK["nodes"])[0]}
    settings |= plan_run({**settings, **first_method}, COMMAND).paths
    request = check_request({**settings, **places, **first_method}, num_supernodes)
    _, first_data = look_at_data(request)
    task = request.task if first_data is None else first_data.task
    _leave_validation(settings, request.resolved, task)
    has_test_set = KINDS[task].has_test_set and not request.config.images.pooled
    if score == "global" and not has_test_set:
        raise UsageError(
            'score = "global": allowed for images, of which the server has test data', key="score"
        )
    names = requested
    if methods == "auto":
        names = list(METHODS_BY_TASK[task])
    elif methods == "all":
        names = [name for name in METHODS if task in METHODS[name].tasks]
    fixed = {key: value for key, value in settings.items() if key not in alternatives}
    reader = _Reader(task, fixed, alternatives, num_supernodes, numbers["budget"], score)
    entrants: dict[str, Entrant] = {}
    for name in names:
        try:
            entrants |= reader.entrants(name)
        except ConfigError as error:
            if requested:
                raise
            log.warning("%s is left out: %s", name, error)
    if len(entrants) < 2:
        raise UsageError(
            f'methods = "{methods}": allowed are two or more, with commas between, auto or all',
            key="methods",
        )
    return Comparison(
        settings={**fixed, SUPERNODES: num_supernodes},
        places=places,
        numbers=numbers,
        score=score,
        entrants=entrants,
    )


def _alternatives(pairs: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The keys that have several values, and all pairs, these keys with their first value."""
    several: dict[str, list[str]] = {}
    single = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        values = text.split(ALTERNATIVES)
        if len(values) > 1 and key in UNTUNED:
            raise UsageError(f"{key} = {text!r}: allowed is one value", key="alternatives")
        if len(values) > 1:
            several[key] = values
        single.append(f"{key}{equals}{values[0]}")
    return several, single


def _check_dataset(dataset: str) -> None:
    source = source_of(dataset)
    has_validation = source is None or KINDS[source.task].has_validation
    if dataset.lower() == "auto" or is_points_file(dataset) or not has_validation:
        raise UsageError(
            f'dataset = "{dataset}": allowed is a data set of graphs or images, the same for all'
            " methods; points have no part for validation, by which configurations are chosen",
            key="dataset",
        )


def _leave_validation(settings: dict[str, Value], config: RunConfig, task: str) -> None:
    """Leave a part of each client's examples for validation if no sizes are set, and refuse sizes
    that leave none."""
    if not KINDS[task].leaves_validation and "train-size" not in settings:
        settings["train-size"] = round(1 - VALIDATION - config.test_size, 6)
    elif config.train_size + config.test_size > 1 - 1e-9:
        raise UsageError(
            f"train-size = {config.train_size} and test-size = {config.test_size}: allowed is a sum"
            " below 1, because validation, by which configurations are chosen, gets the rest",
            key="no-validation",
        )


@dataclass(frozen=True)
class _Reader:
    """Reads the entrants of a comparison.

    Attributes
    ----------
    task : str
    settings : mapping
        The user's keys, which are not tuned.
    alternatives : mapping of str to list
        The user's values of keys that are tuned for every method.
    num_supernodes, budget : int
    score : str
        A key of `SCORES`.
    """

    task: str
    settings: Mapping[str, Value]
    alternatives: Mapping[str, list[str]]
    num_supernodes: int
    budget: int
    score: str

    def entrants(self, method: str) -> dict[str, Entrant]:
        """The method, and its flat twin if it has one.

        Raises
        ------
        ConfigError
            If the method cannot run with these keys, or has no global model to score.
        """
        if self.score == "global" and METHODS[method].personal:
            raise ConfigError(
                f'score = "global": allowed with a method that has a global model; {method} has'
                " none",
                key="score",
            )
        settings = METHODS[method].twin.get(self.task, {})
        if not settings:
            return {method: self._entrant({"method": method})}
        other = str(settings.get("method", method))
        name = other if len(settings) == 1 and other != method else f"{method}, flat"
        try:
            twin = self._entrant({"method": method, **settings})
        except ConfigError as error:
            log.warning("the flat twin of %s is left out: %s", method, error)
            return {method: self._entrant({"method": method})}
        return {method: self._entrant({"method": method}, name), name: twin}

    def _entrant(self, settings: dict[str, Any], twin: str = "") -> Entrant:
        config = self._resolved(settings)
        points = list(itertools.islice(self._points(config, settings), self.budget))
        rate = float(self.settings.get("learning-rate", config.learning_rate))
        return Entrant(settings, rate, points, twin)

    def _resolved(self, settings: Mapping[str, Any]) -> RunConfig:
        request = check_request({**self.settings, **settings}, self.num_supernodes)
        return resolve_defaults(request.config, self.task)

    def _points(self, config: RunConfig, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """All points of the entrant's grid, its defaults first and the others in a random order
        that is the same for equal grids. On graphs each point comes with both schedules."""
        axes: dict[str, Sequence[Any]] = {
            "weight-decay": (config.weight_decay, *DECAYS[str(config.optimizer)]),
        }
        for key, further in METHODS[config.method].tuned.get(self.task, {}).items():
            axes[key] = (config[key], *further)
        if METHODS[config.method].space == "flat" and self.task in MODELS:
            axes["model"] = MODELS[self.task]
        if KINDS[self.task].leaves_validation:
            schedules = ("constant", "inverse")
            axes["schedule"] = sorted(schedules, key=lambda name: name != config.schedule)
        grid = {}
        for key, values in {**axes, **self.alternatives}.items():
            if key not in self.settings and key not in settings:
                grid[key] = list(dict.fromkeys(values))
        grid = {key: self._allowed(key, values, settings) for key, values in grid.items()}
        schedules_tried = grid.pop("schedule", [])
        defaults, *others = (
            dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
        )
        random.Random(0).shuffle(others)
        for point in (defaults, *others):
            if not schedules_tried:
                yield point
            for schedule in schedules_tried:
                yield point | {"schedule": schedule}

    def _allowed(self, key: str, values: list[Any], settings: Mapping[str, Any]) -> list[Any]:
        """The values of a key that the entrant can run with; the first if there is none."""
        allowed = []
        for value in values:
            try:
                self._resolved({**settings, key: value})
            except ConfigError as error:
                log.debug("%s is not tried: %s", settings["method"], error)
            else:
                allowed.append(value)
        return allowed or values[:1]

"""Read a comparison from `key=value` arguments, and refuse it if no machine can make it."""

import itertools
import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.deployments.arguments import UsageError, Value, check_request, pop_count, read_pairs
from curvfed.deployments.compare.keys import METHODS_BY_TASK, OWN_KEYS, SCORES
from curvfed.deployments.preflight import look_at_data
from curvfed.deployments.sweep.plan import DEFAULTS, combinations, data_places, plan_run
from curvfed.server_app.report import SUPERNODES, known_name
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import is_points_file, source_of

log = logging.getLogger("curvfed")

COMMAND = Path("compare")
"""The source of the runs in error texts; relative paths are relative to the working folder."""

MINIMA = {SUPERNODES: 1, "budget": 1, "tuning-seeds": 1, "seeds": 2}

DECAYS = {"adamw": (0.01, 0.1), "adam": (0.0, 5e-4), "sgd": (0.0, 5e-4)}
"""Weight decays beside the default. Those of adamw, which are not part of the gradient, must be
larger to matter."""

VALIDATION = 0.1
"""Validation share of a client's images if no sizes are set; the default of a run is none."""


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
    configurations : dict of str to list
        For each method the same number of configurations, its defaults first: values of the tuned
        keys.
    """

    settings: dict[str, Value]
    places: dict[str, Value]
    numbers: dict[str, int]
    score: str
    configurations: dict[str, list[dict[str, Any]]]

    @property
    def data(self) -> str:
        """The name of the data set, or of the user's file or folder."""
        return Path(str(self.settings["dataset"])).stem

    @property
    def plan(self) -> dict[str, Any]:
        """All keys that the results depend on, for JSON."""
        return {
            "methods": list(self.configurations),
            "score": self.score,
            **self.numbers,
            **self.settings,
            "tried": self.configurations,
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
    settings = read_pairs(pairs, keys)
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
    run = request.resolved
    if not KINDS[task].leaves_validation and "train-size" not in settings:
        settings["train-size"] = round(1 - VALIDATION - run.test_size, 6)
    elif run.train_size + run.test_size > 1 - 1e-9:
        raise UsageError(
            f"train-size = {run.train_size} and test-size = {run.test_size}: allowed is a sum below"
            " 1, because validation, by which configurations are chosen, gets the rest",
            key="no-validation",
        )
    if score == "global" and not KINDS[task].has_test_set:
        raise UsageError(
            'score = "global": allowed for images, of which the server has test data', key="score"
        )
    names = requested
    if methods == "auto":
        names = list(METHODS_BY_TASK[task])
    elif methods == "all":
        names = [name for name in METHODS if task in METHODS[name].tasks]
    configs = {}
    for name in names:
        try:
            configs[name] = _defaults_of(name, task, settings, num_supernodes, score)
        except ConfigError as error:
            if requested:
                raise
            log.warning("%s is left out: %s", name, error)
    if len(configs) < 2:
        raise UsageError(
            f'methods = "{methods}": allowed are two or more, with commas between, auto or all',
            key="methods",
        )
    grids = {
        name: configurations(config, task, settings, numbers["budget"])
        for name, config in configs.items()
    }
    smallest = min(map(len, grids.values()))
    return Comparison(
        settings={**settings, SUPERNODES: num_supernodes},
        places=places,
        numbers=numbers,
        score=score,
        configurations={name: grid[:smallest] for name, grid in grids.items()},
    )


def _check_dataset(dataset: str) -> None:
    source = source_of(dataset)
    has_validation = source is None or KINDS[source.task].has_validation
    if dataset.lower() == "auto" or is_points_file(dataset) or not has_validation:
        raise UsageError(
            f'dataset = "{dataset}": allowed is a data set of graphs or images, the same for all'
            " methods; points have no part for validation, by which configurations are chosen",
            key="dataset",
        )


def _defaults_of(
    method: str, task: str, settings: Mapping[str, Value], num_supernodes: int, score: str
) -> RunConfig:
    """The configuration of a method with its defaults resolved.

    Raises
    ------
    ConfigError
        If the method cannot run with these keys, or has no global model to score.
    """
    if score == "global" and METHODS[method].personal:
        raise ConfigError(
            f'score = "global": allowed with a method that has a global model; {method} has none',
            key="score",
        )
    return resolve_defaults(
        check_request({**settings, "method": method}, num_supernodes).config, task
    )


def configurations(
    config: RunConfig, task: str, settings: Mapping[str, Value], budget: int
) -> list[dict[str, Any]]:
    """Choose the configurations of a method: learning rate by weight decay by its tuned keys.

    Parameters
    ----------
    config : RunConfig
        The method's resolved defaults.
    task : str
    settings : mapping
        The user's keys, which are not tuned.
    budget : int

    Returns
    -------
    list of dict
        The defaults, and then other points of the grid by a draw that is the same for equal grids:
        `budget` of them, or fewer if the grid is smaller. On graphs each point is tried with both
        schedules.
    """
    axes = {
        "weight-decay": DECAYS[str(config.optimizer)],
        **METHODS[config.method].tuned.get(task, {}),
    }
    schedules = [config.schedule]
    if KINDS[task].leaves_validation and "schedule" not in settings:
        schedules = sorted(("constant", "inverse"), key=lambda name: name != config.schedule)
    grid = {
        key: list(dict.fromkeys((config[key], *values)))
        for key, values in axes.items()
        if key not in settings
    }
    # From a tenth to ten times the default, which lies in the middle.
    if "learning-rate" not in settings:
        count = max(5, math.ceil(budget / math.prod(map(len, grid.values())))) | 1
        factors = np.logspace(-1, 1, count)
        rates = (float(f"{config.learning_rate * factor:.3g}") for factor in factors)
        grid = {"learning-rate": list(dict.fromkeys((config.learning_rate, *rates)))} | grid
    defaults, *variants = (
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    )
    count = min(math.ceil(budget / len(schedules)) - 1, len(variants))
    points = [defaults, *random.Random(0).sample(variants, count)]
    # Each method is tried with a constant and a falling rate.
    if len(schedules) > 1:
        points = [point | {"schedule": name} for point in points for name in schedules]
    return points[:budget]

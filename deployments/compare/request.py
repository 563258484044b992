"""A comparison as it was asked for: read from `key=value` arguments, and refused if it can never be
made."""

import itertools
import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.deployments.compare.keys import OWN, SCORES, USUAL
from curvfed.deployments.pairs import UsageError, Value, pop_count, read_pairs
from curvfed.deployments.preflight import look_at_data
from curvfed.deployments.request import checked
from curvfed.deployments.sweep.make import data_places
from curvfed.deployments.sweep.plan import DEFAULTS, combinations, plan_run
from curvfed.server_app.report import SUPERNODES, known_name
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.points.datasets import is_points

log = logging.getLogger("curvfed")

COMMAND = Path("compare")
"""What asks for the runs, in error texts; relative paths are relative to the working folder."""

LEAST = {SUPERNODES: 1, "budget": 1, "tuning-seeds": 1, "seeds": 2}

DECAYS = {"adamw": (0.01, 0.1), "adam": (0.0, 5e-4), "sgd": (0.0, 5e-4)}
"""Weight decays besides the default; adamw has them beside the gradient, where only larger ones
matter."""

VALIDATION = 0.1
"""Share of a client's images that validation gets where the sizes are not given; by default a run
keeps none."""


@dataclass(frozen=True)
class Comparison:
    """A comparison as it was asked for.

    Attributes
    ----------
    settings : dict
        The keys that all runs have, with `num-supernodes`.
    places : dict
        `data-dir`, which is no part of what is compared.
    numbers : dict of str to int
        `budget`, `tuning-seeds` and `seeds`.
    score : str
        A key of `SCORES`.
    tried : dict of str to list
        Of each method the same number of configurations, which are values of the keys that are
        tuned: its defaults first.
    """

    settings: dict[str, Value]
    places: dict[str, Value]
    numbers: dict[str, int]
    score: str
    tried: dict[str, list[dict[str, Any]]]

    @property
    def data(self) -> str:
        """The name of the data set, or of the user's file or folder."""
        return Path(str(self.settings["dataset"])).stem

    @property
    def plan(self) -> dict[str, Any]:
        """All that the results depend on, for JSON."""
        return {
            "methods": list(self.tried),
            "score": self.score,
            **self.numbers,
            **self.settings,
            "tried": self.tried,
        }

    @property
    def seeds(self) -> tuple[range, range]:
        """The seeds that configurations are chosen by, and after them those that methods are
        compared on."""
        first = int(self.settings.get("seed", DEFAULTS["seed"]))
        fresh = first + self.numbers["tuning-seeds"]
        return range(first, fresh), range(fresh, fresh + self.numbers["seeds"])


def read_comparison(pairs: Sequence[str], data: Path | None) -> Comparison:
    """Read the arguments, look at the data, and lay out what is tried.

    Raises
    ------
    UsageError, ConfigError
    """
    given = read_pairs(pairs, DEFAULTS | OWN)
    numbers = {
        key: pop_count(given, key, (DEFAULTS | OWN)[key], least) for key, least in LEAST.items()
    }
    number = numbers.pop(SUPERNODES)
    method = given.pop("method", "")
    score = str(given.pop("score", OWN["score"]))
    known_name(score, SCORES, f"score; allowed is one of {', '.join(SCORES)}", "score")
    typed = any(pair.startswith("method=") for pair in pairs)  # the method of a preset gives way
    methods = str(given.pop("methods", method if typed else OWN["methods"]))
    wanted = [] if methods in ("auto", "all") else list(dict.fromkeys(methods.split(",")))
    for name in wanted:
        known_name(name, METHODS, "method", "methods")
    folder = data or (Path(str(given["data-dir"])).expanduser() if given.get("data-dir") else None)
    given.pop("data-dir", None)
    places = data_places(folder)
    next(combinations(given, COMMAND))
    dataset = str(given.get("dataset", "auto"))
    if dataset.lower() in ("auto", "uniform", "olsson") or is_points(dataset):
        raise UsageError(
            f'dataset = "{dataset}": allowed is a data set of graphs or images, the same for all'
            " methods; points have no part for validation, by which configurations are chosen"
        )
    first = {"method": (wanted or USUAL["nodes"])[0]}
    given |= plan_run({**given, **first}, COMMAND).paths
    request = checked({**given, **places, **first}, number)
    _, found = look_at_data(request)
    task = request.task if found is None else found.task
    run = request.resolved
    if task == "images" and "train-size" not in given:
        given["train-size"] = round(1 - VALIDATION - run.test_size, 6)
    elif run.train_size + run.test_size > 1 - 1e-9:
        raise UsageError(
            f"train-size = {run.train_size} and test-size = {run.test_size}: allowed is a sum below"
            " 1, because validation, by which configurations are chosen, has the rest"
        )
    if score == "global" and task != "images":
        raise UsageError('score = "global": allowed for images, of which the server has test data')
    usual = (
        USUAL[task]
        if methods == "auto"
        else [name for name in METHODS if task in METHODS[name].tasks]
    )
    configs = {}
    for name in wanted or usual:
        try:
            if score == "global" and METHODS[name].personal:
                raise ConfigError(
                    f'score = "global": allowed with a method that has a global model; {name} has'
                    " none"
                )
            configs[name] = resolve_defaults(
                checked({**given, "method": name}, number).config, task
            )
        except ConfigError as error:
            if wanted:
                raise
            log.warning("%s is left out: %s", name, error)
    if len(configs) < 2:
        raise UsageError(
            f'methods = "{methods}": allowed are two or more, with commas between, auto or all'
        )
    tried = {
        name: configurations(config, task, given, numbers["budget"])
        for name, config in configs.items()
    }
    equal = min(map(len, tried.values()))
    equally = {name: found[:equal] for name, found in tried.items()}
    return Comparison({**given, SUPERNODES: number}, places, numbers, score, equally)


def configurations(
    config: RunConfig, task: str, given: Mapping[str, Value], budget: int
) -> list[dict[str, Any]]:
    """Lay out what is tried of a method: learning rate by weight decay by what its row has in
    `tuned`.

    Parameters
    ----------
    config : RunConfig
        The method's defaults, settled.
    task : str
    given : mapping
        The user's keys, which are not tuned.
    budget : int

    Returns
    -------
    list of dict
        The defaults, and then others of the grid by a draw that is the same for equal grids:
        `budget` of them, or fewer where the given keys leave no more. On graphs each is tried with
        both schedules.
    """
    axes = {
        "weight-decay": DECAYS[str(config.optimizer)],
        **METHODS[config.method].tuned.get(task, {}),
    }
    schedules = [config.schedule]
    if task != "images" and "schedule" not in given:
        schedules = sorted(("constant", "inverse"), key=lambda one: one != config.schedule)
    grid = {
        key: list(dict.fromkeys((config[key], *values)))
        for key, values in axes.items()
        if key not in given
    }
    # from a tenth to ten times the default, which is the one in the middle
    if "learning-rate" not in given:
        count = max(5, math.ceil(budget / math.prod(map(len, grid.values())))) | 1
        rates = (
            float(f"{config.learning_rate * factor:.3g}") for factor in np.logspace(-1, 1, count)
        )
        grid = {"learning-rate": list(dict.fromkeys((config.learning_rate, *rates)))} | grid
    first, *others = (
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    )
    points = [
        first,
        *random.Random(0).sample(others, min(math.ceil(budget / len(schedules)) - 1, len(others))),
    ]
    # a rate that stays and one that falls are tried side by side, whatever the method's own is
    if len(schedules) > 1:
        points = [point | {"schedule": one} for point in points for one in schedules]
    return points[:budget]

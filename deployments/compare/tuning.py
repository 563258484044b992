"""The steps of a comparison, whose runs are made as sweeps, and the choice of each entrant's
configuration by validation: the learning rate first, then the other keys, then the rate again."""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.compare import SCORES
from curvfed.deployments.compare.request import COMMAND, Comparison
from curvfed.deployments.sweep import file_digest, plan_run
from curvfed.deployments.sweep.results import Results
from curvfed.deployments.sweep.runner import Executor, run_sweep
from curvfed.server_app.report.selection import Run
from curvfed.server_app.report.study import Plan, Planned
from curvfed.strategies.base.figures import BEST, VALIDATION
from curvfed.tasks.stored_files import write_atomically

Key = TypeVar("Key")

SCORE = f"{BEST}.metrics.{VALIDATION}"
"""The figure by which configurations are chosen."""

DROPPED = "replies_dropped"

FIRST_STEPS: tuple[int, ...] = (0, -2, -1, 1, 2)
"""The first rates of each entrant, in steps of √10 from the default."""

FARTHEST = 8
"""Steps from the default beyond which no rate is tried."""

Configuration = dict[str, Any]


@dataclass(frozen=True)
class StepRunner:
    """Makes the runs of a step as a sweep."""

    comparison: Comparison
    folder: Path
    executor: Executor
    console: Console
    contents: Callable[[Path], str] = field(default_factory=lambda: cache(file_digest))

    def make(
        self, step: str, settings: Mapping[Key, Mapping[str, Any]], seeds: Sequence[int]
    ) -> dict[Key, list[Run]]:
        """The runs of a step, one per seed for each of the settings."""
        planned = {}
        for key, configuration in settings.items():
            planned[key] = [self._plan(configuration, seed) for seed in seeds]
        plan = Plan(
            path=COMMAND,
            scale="",
            title=f"{self.comparison.data}, {step}",
            source="",
            about="",
            runs=tuple(itertools.chain(*planned.values())),
        )
        run_sweep(plan, self.folder, self.comparison.places, self.executor, self.console)
        runs = {run.planned.name: run for run in Results(self.folder).select(plan)}
        by_key = {}
        for key, group in planned.items():
            by_key[key] = [runs[run.name] for run in group]
        return by_key

    def _plan(self, configuration: Mapping[str, Any], seed: int) -> Planned:
        settings = {**self.comparison.settings, **configuration, "seed": seed}
        return plan_run(settings, COMMAND, self.contents)


def check_plan(path: Path, text: str) -> None:
    """Write the plan, or compare it with the existing one.

    Raises
    ------
    UsageError
        If the existing plan differs; names the first key that differs.
    """
    if not path.exists():
        write_atomically(path, text.encode())
    try:
        existing = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}); name another folder by --results",
            key="unreadable",
        ) from None
    plan = json.loads(text)
    for key in {**existing, **plan}:
        old = existing.get(key)
        if old != plan.get(key):
            raise UsageError(
                f"{path.parent} holds a comparison with {key} ="
                f" {json.dumps(existing.get(key, 'auto'))}, not"
                f" {json.dumps(plan.get(key, 'auto'))}; name another folder by --results",
                key="other-comparison",
            )


@dataclass(frozen=True)
class Choice:
    """The chosen configuration of an entrant.

    Attributes
    ----------
    configuration : dict
        The values of its tuned keys; empty if none is chosen.
    validation : float or None
        Its mean validation score.
    tried : int
        The number of configurations that were tried.
    error : str
        The reason why none is chosen.
    """

    configuration: Configuration = field(default_factory=dict)
    validation: float | None = None
    tried: int = 0
    error: str = ""


class Tuning:
    """Tries configurations of all entrants on the seeds for tuning.

    A configuration with a failed run, or with a run without the compared figure, is out, and so is
    one at which a client's update was refused, as a rate that diverges.

    Parameters
    ----------
    comparison : Comparison
    runner : StepRunner
    """

    def __init__(self, comparison: Comparison, runner: StepRunner) -> None:
        self._comparison = comparison
        self._runner = runner
        self._is_swept = "learning-rate" not in comparison.settings
        self._trials: dict[str, dict[str, list[Run]]] = {name: {} for name in comparison.entrants}

    def choose(self) -> dict[str, Choice]:
        """The choice of each entrant."""
        entrants = self._comparison.entrants
        defaults = {name: entrant.configurations[0] for name, entrant in entrants.items()}
        rates = self._sweep_rates("tuning of rates", defaults, {})
        points = {}
        for name, entrant in entrants.items():
            points[name] = [
                self._with_rate(name, configuration, rates.get(name, 0))
                for configuration in entrant.configurations
            ]
        self._try("tuning of other keys", points)
        chosen = {name: self._best(name).configuration for name in entrants}
        without_rates = {
            name: self._without_rate(values) for name, values in chosen.items() if values
        }
        self._sweep_rates("tuning of rates again", without_rates, rates)
        return {name: self._best(name) for name in entrants}

    @property
    def runs(self) -> list[Run]:
        """All runs that were made."""
        groups = [list(trials.values()) for trials in self._trials.values()]
        return list(itertools.chain(*itertools.chain(*groups)))

    def _sweep_rates(
        self,
        step: str,
        configurations: Mapping[str, Configuration],
        centres: Mapping[str, int],
    ) -> dict[str, int]:
        """Try rates with one configuration of each entrant until the best of each has a worse or
        an impossible rate on either side.

        Parameters
        ----------
        centres : mapping of str to int
            The rates to begin around, in steps from the default; without one, `FIRST_STEPS`.

        Returns
        -------
        dict of str to int
            The best rates, of the entrants that have one.
        """
        if not self._is_swept:
            self._try(step, {name: [values] for name, values in configurations.items()})
            return {}
        tried: dict[str, set[int]] = {name: set() for name in configurations}
        steps_to_try: dict[str, Sequence[int]] = {}
        for name in configurations:
            centre = centres.get(name)
            first = FIRST_STEPS if centre is None else (centre, centre - 1, centre + 1)
            steps_to_try[name] = [place for place in first if abs(place) <= FARTHEST]
        best: dict[str, int] = {}
        while steps_to_try:
            points = {}
            for name, steps in steps_to_try.items():
                tried[name].update(steps)
                points[name] = [
                    self._with_rate(name, configurations[name], place) for place in steps
                ]
            self._try(step, points)
            steps_to_try = {}
            for name, configuration in configurations.items():
                place = self._best_place(name, configuration, tried[name])
                if place is None:
                    continue
                best[name] = place
                beyond = {place - 1, place + 1} - tried[name]
                beyond = {step for step in beyond if abs(step) <= FARTHEST}
                if beyond:
                    steps_to_try[name] = sorted(beyond)
        return best

    def _best_place(
        self, name: str, configuration: Configuration, places: Iterable[int]
    ) -> int | None:
        """The best of these rates, in steps from the default; of equal ones the nearest to it, and
        None if all are out."""
        scores = {}
        for place in places:
            score = self._score(name, self._with_rate(name, configuration, place))
            if score is not None:
                scores[place] = score
        return max(scores, key=lambda place: (scores[place], -abs(place)), default=None)

    def _with_rate(self, name: str, configuration: Configuration, place: int) -> Configuration:
        if not self._is_swept:
            return configuration
        default = self._comparison.entrants[name].rate
        rate = default if place == 0 else float(f"{default * 10 ** (place / 2):.3g}")
        return {"learning-rate": rate, **configuration}

    def _without_rate(self, configuration: Configuration) -> Configuration:
        return {key: value for key, value in configuration.items() if key != "learning-rate"}

    def _try(self, step: str, points: Mapping[str, Sequence[Configuration]]) -> None:
        """Make the runs of these configurations that are not made yet."""
        settings = {}
        for name, configurations in points.items():
            entrant = self._comparison.entrants[name]
            for configuration in configurations:
                key = json.dumps(configuration)
                if key not in self._trials[name]:
                    settings[name, key] = {**entrant.settings, **configuration}
        if not settings:
            return
        tuning_seeds, _ = self._comparison.seeds
        for (name, key), runs in self._runner.make(step, settings, tuning_seeds).items():
            self._trials[name][key] = runs

    def _score(self, name: str, configuration: Configuration) -> float | None:
        """The mean validation score of a configuration; None if it is out."""
        runs = self._trials[name][json.dumps(configuration)]
        figure = SCORES[self._comparison.score]
        scores = []
        for run in runs:
            if run.error or run.figure(figure) is None or run.figure(DROPPED):
                return None
            scores.append(run.figure(SCORE))
        return None if None in scores else float(np.mean(scores))  # type: ignore[arg-type]

    def _best(self, name: str) -> Choice:
        """The best configuration so far; of equal ones the first."""
        trials = self._trials[name]
        scores: dict[str, float] = {}
        for key in trials:
            score = self._score(name, json.loads(key))
            if score is not None:
                scores[key] = score
        if scores:
            best = max(scores, key=lambda key: scores[key])
            return Choice(json.loads(best), scores[best], len(trials))
        errors = [run.error for run in itertools.chain(*trials.values()) if run.error]
        figure = SCORES[self._comparison.score]
        error = next(iter(errors), f"no run has {SCORE} and {figure} with all clients' replies")
        return Choice(tried=len(trials), error=error)

"""The steps of a comparison, whose runs are made as sweeps, and the choice of each entrant's
configuration by validation: the learning rate, the weight decay, the other keys in turn, then decay
and rate again."""

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from curvfed.deployments.arguments import UsageError
from curvfed.extensions.sweeps.commands.compare import CHOSEN_BY, DECAYS
from curvfed.extensions.sweeps.commands.compare.request import COMMAND, Comparison, Entrant
from curvfed.extensions.sweeps.commands.pages import SCORES
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Plan, Planned
from curvfed.extensions.sweeps.commands.sweep import file_digest, plan_run
from curvfed.extensions.sweeps.commands.sweep.results import Results
from curvfed.extensions.sweeps.commands.sweep.runner import Executor, run_sweep
from curvfed.strategies.methods import METHODS
from curvfed.strategies.run_log import log
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.stored_files import write_atomically

Key = TypeVar("Key")

DROPPED = "replies_dropped"

RATE = "learning-rate"
DECAY = "weight-decay"

FIRST_RATES: tuple[int, ...] = (0, -2, -1, 1, 2)
"""The first rates of each entrant, in steps of √10 from the default."""

FARTHEST = 8
"""Steps from the default beyond which no rate is tried."""

FIRST_DECAYS: tuple[int, ...] = (0, 1, 3, 5)
"""The first decays: the default, and steps of √10 from the smallest of `DECAYS`, which is 1."""

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


def compared_figure(score: str, runs: Iterable[Run]) -> str:
    """The figure that is compared: the first of the score's that a run has."""
    names = SCORES[score]
    present = (name for name in names if any(run.figure(name) is not None for run in runs))
    return next(present, names[-1])


@dataclass(frozen=True)
class Ladder:
    """The values of a number that is swept until its best is inside.

    Attributes
    ----------
    key : str
    values : mapping of int to float
        By step.
    first : tuple of int
        The steps to begin with.
    """

    key: str
    values: Mapping[int, float]
    first: tuple[int, ...]

    @classmethod
    def of_rates(cls, entrant: Entrant) -> "Ladder":
        """Steps of √10 around the default rate."""
        steps = range(-FARTHEST, FARTHEST + 1)
        values = {step: float(f"{entrant.rate * 10 ** (step / 2):.3g}") for step in steps}
        return cls(RATE, values | {0: entrant.rate}, FIRST_RATES)

    @classmethod
    def of_decays(cls, entrant: Entrant, optimizer: str) -> "Ladder":
        """The default, then steps of √10 between the smallest and the largest decay."""
        smallest, largest = DECAYS[optimizer]
        number = round(2 * math.log10(largest / smallest)) + 1
        values = {0: entrant.decay}
        for step in range(1, number + 1):
            values[step] = float(f"{smallest * 10 ** ((step - 1) / 2):.3g}")
        return cls(DECAY, values, tuple(step for step in FIRST_DECAYS if step <= number))


class Tuning:
    """Tries configurations of all entrants on the seeds for tuning, one key after the other from
    the best configuration so far.

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
        self._trials: dict[str, dict[str, list[Run]]] = {name: {} for name in comparison.entrants}
        self._spent = dict.fromkeys(comparison.entrants, 0)

    def choose(self) -> dict[str, Choice]:
        """The choice of each entrant."""
        entrants = self._comparison.entrants
        defaults = {}
        for name, entrant in entrants.items():
            keys = {RATE: entrant.rate, DECAY: entrant.decay}
            tuned = {key: value for key, value in keys.items() if self._is_tuned(name, key)}
            defaults[name] = tuned | {key: values[0] for key, values in entrant.axes.items()}
        self._sweep("tuning of rates", self._ladders(RATE), defaults)
        self._sweep("tuning of decays", self._ladders(DECAY), self._bests())
        for number in range(max(len(entrant.axes) for entrant in entrants.values())):
            self._try_axis(number)
        # The best decay depends much on the other keys, such as a bias; the best rate less.
        self._sweep("tuning of decays again", self._ladders(DECAY), self._bests())
        self._sweep("tuning of rates again", self._ladders(RATE, is_repeat=True), self._bests())
        return {name: self._best(name) for name in entrants}

    @property
    def runs(self) -> list[Run]:
        """All runs that were made."""
        groups = [list(trials.values()) for trials in self._trials.values()]
        return list(itertools.chain(*itertools.chain(*groups)))

    def _is_tuned(self, name: str, key: str) -> bool:
        """Whether the key is neither set by the user nor unread by the method."""
        settings = self._comparison.settings
        row = METHODS[self._comparison.entrants[name].settings["method"]]
        return key not in settings and key not in row.unread

    def _ladders(self, key: str, is_repeat: bool = False) -> dict[str, Ladder]:
        """The ladders of a key, by entrant; `is_repeat`: only the neighbours of the best."""
        ladders = {}
        for name, entrant in self._comparison.entrants.items():
            if not self._is_tuned(name, key):
                continue
            if key == RATE:
                ladder = Ladder.of_rates(entrant)
            else:
                ladder = Ladder.of_decays(entrant, entrant.optimizer)
            ladders[name] = replace(ladder, first=()) if is_repeat else ladder
        return ladders

    def _bests(self) -> dict[str, Configuration]:
        """The best configuration of each entrant so far, of those that have one."""
        chosen = {name: self._best(name) for name in self._comparison.entrants}
        return {name: choice.configuration for name, choice in chosen.items() if not choice.error}

    def _sweep(
        self,
        step: str,
        ladders: Mapping[str, Ladder],
        configurations: Mapping[str, Configuration],
    ) -> None:
        """Try values of a number with one configuration of each entrant until the best of each has
        a worse or an impossible value on either side.

        Without ladders, the configurations are tried as they are.
        """
        todo: dict[str, list[Configuration]] = {}
        for name, configuration in configurations.items():
            first = ladders[name].first if name in ladders else ()
            todo[name] = [configuration, *self._at(ladders.get(name), configuration, first)]
        while todo:
            self._try(step, todo)
            todo = {}
            for name, ladder in ladders.items():
                if name not in configurations:
                    continue
                best = self._best_step(name, ladder, configurations[name])
                if best is None:
                    continue
                beyond = [place for place in (best - 1, best + 1) if place in ladder.values]
                points = self._at(ladder, configurations[name], beyond)
                points = [point for point in points if not self._is_tried(name, point)]
                if points:
                    todo[name] = points

    def _at(
        self, ladder: Ladder | None, configuration: Configuration, steps: Iterable[int]
    ) -> list[Configuration]:
        """The configuration with the values of the ladder at these steps."""
        if ladder is None:
            return []
        return [{**configuration, ladder.key: ladder.values[step]} for step in steps]

    def _best_step(self, name: str, ladder: Ladder, configuration: Configuration) -> int | None:
        """The best of the tried steps, of equal ones the nearest to 0; None if all are out."""
        scores = {}
        for step in ladder.values:
            (point,) = self._at(ladder, configuration, [step])
            if self._is_tried(name, point) and (score := self._score(name, point)) is not None:
                scores[step] = score
        return max(scores, key=lambda step: (scores[step], -abs(step)), default=None)

    def _try_axis(self, number: int) -> None:
        """Try all values of the axis of this number of each entrant, from its best
        configuration."""
        points = {}
        for name, configuration in self._bests().items():
            axes = list(self._comparison.entrants[name].axes.items())
            for key, values in axes[number : number + 1]:
                points[name] = [{**configuration, key: value} for value in values]
        self._try("tuning of other keys", points, is_counted=True)

    def _is_tried(self, name: str, configuration: Configuration) -> bool:
        return _identity(configuration) in self._trials[name]

    def _try(
        self, step: str, points: Mapping[str, Sequence[Configuration]], is_counted: bool = False
    ) -> None:
        """Make the runs of these configurations that are not made yet; counted ones only within
        the budget."""
        settings: dict[tuple[str, str], dict[str, Any]] = {}
        budget = self._comparison.numbers["budget"]
        for name, configurations in points.items():
            entrant = self._comparison.entrants[name]
            for configuration in configurations:
                key = (name, _identity(configuration))
                if self._is_tried(name, configuration) or key in settings:
                    continue
                if is_counted and self._spent[name] >= budget:
                    log.info("%s: not tried for the budget: %s", name, key[1])
                    self._trials[name][key[1]] = []
                    continue
                self._spent[name] += is_counted
                settings[key] = {
                    **entrant.settings,
                    **configuration,
                    **self._comparison.tuning_settings,
                }
        if not settings:
            return
        tuning_seeds, _ = self._comparison.seeds
        for (name, identity), runs in self._runner.make(step, settings, tuning_seeds).items():
            self._trials[name][identity] = runs

    def _score(self, name: str, configuration: Configuration) -> float | None:
        """The mean score by which a configuration is chosen; None if it is out."""
        runs = self._trials[name][_identity(configuration)]
        score = self._comparison.score
        compared = compared_figure(score, runs)
        choosing = compared
        if KINDS[self._comparison.task].has_validation:
            choosing = CHOSEN_BY.get(score, compared)
        scores = []
        for run in runs:
            if run.error or run.figure(compared) is None or run.figure(DROPPED):
                return None
            scores.append(run.figure(choosing))
        return None if None in scores or not scores else float(np.mean(scores))  # type: ignore[arg-type]

    def _best(self, name: str) -> Choice:
        """The best configuration so far; of equal ones the first."""
        trials = self._trials[name]
        scores: dict[str, float] = {}
        for identity in trials:
            score = self._score(name, json.loads(identity))
            if score is not None:
                scores[identity] = score
        tried = sum(bool(runs) for runs in trials.values())
        if scores:
            best = max(scores, key=lambda identity: scores[identity])
            return Choice(json.loads(best), scores[best], tried)
        runs = list(itertools.chain(*trials.values()))
        errors = [run.error for run in runs if run.error]
        lacking = ["no run has the compared figures with all clients' replies"]
        lacking += runs[0].warnings if runs else []
        return Choice(tried=tried, error=next(iter(errors), "; ".join(lacking)))


def _identity(configuration: Configuration) -> str:
    """A configuration as text, whatever the order of its keys."""
    return json.dumps(configuration, sort_keys=True)

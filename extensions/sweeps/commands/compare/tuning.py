"""The choice of an entrant's configuration by validation: the learning rate, the weight decay, the
other keys in turn, then decay and rate again."""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvfed.extensions.sweeps.commands.compare import CHOSEN_BY
from curvfed.extensions.sweeps.commands.compare.comparison import COMMAND, Comparison
from curvfed.extensions.sweeps.commands.compare.ladder import DECAY, RATE, Ladder
from curvfed.extensions.sweeps.commands.pages import SCORES
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.sweep import file_digest, plan_run
from curvfed.extensions.sweeps.commands.sweep.runner import Batch, Stream
from curvfed.strategies.methods import METHODS
from curvfed.strategies.run_log import log
from curvfed.tasks.kinds import KINDS

DROPPED = "metrics.replies_dropped"
"""The column of the number of refused replies of a run."""

REPEATED = 2
"""The expected number of new configurations when a number is swept again."""

Configuration = dict[str, Any]


class Step(NamedTuple):
    """A step of the choice.

    Attributes
    ----------
    stream : callable
        Begins it.
    expected, most : int
        The expected and the maximum number of its new configurations.
    """

    stream: Callable[[], Stream[None]]
    expected: int
    most: int


class Size(NamedTuple):
    """Numbers of runs.

    Attributes
    ----------
    expected : int
    most : int
        The maximum.
    """

    expected: int
    most: int


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


class Tuning:
    """Tries configurations of an entrant on the seeds for tuning, one key after the other from the
    best configuration so far.

    A configuration with a failed run, or with a run without the compared figure, is out, and so is
    one at which a client's update was refused, as a rate that diverges.

    Parameters
    ----------
    comparison : Comparison
    name : str
        The entrant.
    contents : callable
        The digest of a file or folder; see `plan_run`.
    """

    def __init__(
        self, comparison: Comparison, name: str, contents: Callable[[Path], str] = file_digest
    ) -> None:
        self._comparison = comparison
        self._name = name
        self._entrant = comparison.entrants[name]
        self._contents = contents
        self._trials: dict[str, list[Run]] = {}
        self._spent = 0
        self._later = 0

    def stream(self) -> Stream[tuple[Choice, list[Run]]]:
        """Choose a configuration, and run it on the fresh seeds.

        Returns
        -------
        Choice
        list of Run
            The runs on the fresh seeds; empty if none is chosen.
        """
        seeds, fresh_seeds = self._comparison.seeds
        steps = self._steps()
        for place, step in enumerate(steps):
            expected = sum(later.expected for later in steps[place + 1 :])
            self._later = len(seeds) * expected + len(fresh_seeds)
            yield from step.stream()
        choice = self._best()
        if choice.error:
            return choice, []
        self._later = 0
        chosen = {**self._entrant.settings, **choice.configuration}
        return choice, (yield from self._make("comparison", [chosen], fresh_seeds))

    @property
    def runs(self) -> list[Run]:
        """All runs that were made for the choice."""
        return list(itertools.chain(*self._trials.values()))

    @property
    def tuning_runs(self) -> Size:
        """The number of runs for the choice; fewer with equal runs of another method."""
        seeds, _ = self._comparison.seeds
        steps = self._steps()
        expected = sum(step.expected for step in steps)
        return Size(len(seeds) * expected, len(seeds) * sum(step.most for step in steps))

    def _steps(self) -> list[Step]:
        """The steps of the choice."""
        budget = self._comparison.numbers["budget"]
        sweep = self._sweep
        steps = [
            Step(partial(sweep, "tuning of rates", RATE), *self._sizes(RATE, is_first=True)),
            Step(partial(sweep, "tuning of decays", DECAY), *self._sizes(DECAY)),
        ]
        for key, values in self._entrant.axes.items():
            number = min(len(values) - 1, budget)
            budget -= number
            steps.append(Step(partial(self._try_axis, key), number, number))
        # The best decay depends much on the other keys, such as a bias; the best rate less.
        again = partial(sweep, "tuning of decays again", DECAY)
        steps.append(Step(again, *self._sizes(DECAY, is_repeat=True)))
        again = partial(sweep, "tuning of rates again", RATE, is_repeat=True)
        steps.append(Step(again, *self._sizes(RATE, is_repeat=True)))
        return steps

    def _sizes(self, key: str, is_first: bool = False, is_repeat: bool = False) -> Size:
        """The numbers of new configurations in a sweep of a number; the first sweep also tries the
        configuration from which all others differ."""
        ladder = self._ladder(key, is_repeat=False)
        if ladder is None:
            return Size(is_first, is_first)
        further = REPEATED if is_repeat else len(ladder.first) - 1
        return Size(is_first + further, is_first + len(ladder.values) - 1)

    def _is_tuned(self, key: str) -> bool:
        """Whether the key is neither set by the user nor unread by the method."""
        row = METHODS[self._entrant.settings["method"]]
        return key not in self._comparison.settings and key not in row.unread

    def _ladder(self, key: str, is_repeat: bool) -> Ladder | None:
        """The ladder of a key that is tuned; `is_repeat`: only the neighbours of the best."""
        if not self._is_tuned(key):
            return None
        if key == RATE:
            ladder = Ladder.of_rates(self._entrant)
        else:
            ladder = Ladder.of_decays(self._entrant, self._entrant.optimizer)
        return replace(ladder, first=()) if is_repeat else ladder

    def _start(self) -> Configuration | None:
        """The best configuration so far; the defaults before any, None if all are out."""
        if self._trials:
            choice = self._best()
            return None if choice.error else choice.configuration
        keys = {RATE: self._entrant.rate, DECAY: self._entrant.decay}
        tuned = {key: value for key, value in keys.items() if self._is_tuned(key)}
        return tuned | {key: values[0] for key, values in self._entrant.axes.items()}

    def _sweep(self, words: str, key: str, is_repeat: bool = False) -> Stream[None]:
        """Try values of a number with the best configuration until the best of them has a worse or
        an impossible value on either side.

        If the key is not tuned, the configuration is tried as it is.
        """
        start = self._start()
        if start is None:
            return
        ladder = self._ladder(key, is_repeat)
        points = [start]
        if ladder is not None:
            points += [_at(ladder, start, step) for step in ladder.first]
        while points:
            yield from self._try(words, points)
            points = []
            best = None if ladder is None else self._best_step(ladder, start)
            if ladder is not None and best is not None:
                beyond = [step for step in (best - 1, best + 1) if step in ladder.values]
                points = [_at(ladder, start, step) for step in beyond]
            points = [point for point in points if _identity(point) not in self._trials]

    def _best_step(self, ladder: Ladder, configuration: Configuration) -> int | None:
        """The best of the tried steps, of equal ones the nearest to 0; None if all are out."""
        scores = {}
        for step in ladder.values:
            identity = _identity(_at(ladder, configuration, step))
            if identity in self._trials and (score := self._score(identity)) is not None:
                scores[step] = score
        return max(scores, key=lambda step: (scores[step], -abs(step)), default=None)

    def _try_axis(self, key: str) -> Stream[None]:
        """Try all values of a key, from the best configuration."""
        start = self._start()
        if start is not None:
            points = [{**start, key: value} for value in self._entrant.axes[key]]
            yield from self._try("tuning of other keys", points, is_counted=True)

    def _try(
        self, words: str, points: Sequence[Configuration], is_counted: bool = False
    ) -> Stream[None]:
        """Make the runs of these configurations that are not made yet; counted ones only within
        the budget."""
        new: dict[str, dict[str, Any]] = {}
        for configuration in points:
            identity = _identity(configuration)
            if identity in self._trials or identity in new:
                continue
            if is_counted and self._spent >= self._comparison.numbers["budget"]:
                log.info("%s: not tried for the budget: %s", self._name, identity)
                self._trials[identity] = []
                continue
            self._spent += is_counted
            settings = {**self._entrant.settings, **configuration}
            new[identity] = settings | self._comparison.tuning_settings
        if not new:
            return
        seeds, _ = self._comparison.seeds
        runs = yield from self._make(words, list(new.values()), seeds)
        groups = zip(*[iter(runs)] * len(seeds), strict=True)
        self._trials |= zip(new, map(list, groups), strict=True)

    def _make(
        self, words: str, settings: Sequence[Mapping[str, Any]], seeds: Sequence[int]
    ) -> Stream[list[Run]]:
        """The runs of settings, one per seed for each of them."""
        common = self._comparison.settings
        planned = [
            plan_run({**common, **keys, "seed": seed}, COMMAND, self._contents)
            for keys in settings
            for seed in seeds
        ]
        return (yield Batch(planned, words, self._later))

    def _score(self, identity: str) -> float | None:
        """The mean score by which a configuration is chosen; None if it is out."""
        runs = self._trials[identity]
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

    def _best(self) -> Choice:
        """The best configuration so far; of equal ones the first."""
        trials = self._trials
        scores: dict[str, float] = {}
        for identity in trials:
            score = self._score(identity)
            if score is not None:
                scores[identity] = score
        tried = sum(bool(runs) for runs in trials.values())
        if scores:
            best = max(scores, key=lambda identity: scores[identity])
            return Choice(json.loads(best), scores[best], tried)
        errors = [run.error for run in self.runs if run.error]
        lacking = ["no run has the compared figures with all clients' replies"]
        lacking += self.runs[0].warnings if self.runs else []
        return Choice(tried=tried, error=next(iter(errors), "; ".join(lacking)))


def _at(ladder: Ladder, configuration: Configuration, step: int) -> Configuration:
    """The configuration with the value of the ladder at a step."""
    return {**configuration, ladder.key: ladder.values[step]}


def _identity(configuration: Configuration) -> str:
    """A configuration as text, whatever the order of its keys."""
    return json.dumps(configuration, sort_keys=True)

"""The command `curvfed compare`: choose configurations by validation, then compare methods on fresh
seeds.

Both steps are sweeps, so that the same command continues an interrupted comparison.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.compare.keys import SCORES
from curvfed.deployments.compare.request import COMMAND, Comparison, read_comparison
from curvfed.deployments.compare.results import Choice, result, write_results
from curvfed.deployments.output_file import make_folder
from curvfed.deployments.resources import Resources
from curvfed.deployments.sweep.make import sweep
from curvfed.deployments.sweep.plan import file_digest, plan_run
from curvfed.deployments.sweep.results import Results
from curvfed.server_app.report import Plan, Planned, Run
from curvfed.strategies.base.figures import BEST, VALIDATION
from curvfed.strategies.base.run_keys import home
from curvfed.tasks.stored_files import write_atomically

SCORE = f"{BEST}.metrics.{VALIDATION}"
"""The figure by which configurations are chosen."""

Key = TypeVar("Key")


def main(
    pairs: Sequence[str],
    results: Path | None,
    data: Path | None,
    resources: Resources,
) -> int:
    """Make the missing runs, write the report and print the answer.

    Returns
    -------
    int
        0 all methods are compared, 1 some are not.

    Raises
    ------
    UsageError, ConfigError
        If no machine can run the methods with these keys.
    """
    console = Console(soft_wrap=True)
    comparison = read_comparison(pairs, data)
    text = json.dumps(comparison.plan, indent=1)
    name = f"{comparison.data}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder = (results or home() / "comparisons" / name).resolve()
    make_folder(folder)
    check_plan(folder / "plan.json", text)

    runner = StepRunner(comparison, folder, resources, console)
    tuning_seeds, fresh_seeds = comparison.seeds
    figure = SCORES[comparison.score]
    trials: dict[str, list[list[Run]]] = {}
    settings = {
        (method, number): {"method": method, **configuration}
        for method, configurations in comparison.configurations.items()
        for number, configuration in enumerate(configurations)
    }
    tuning_runs = runner.make("step 1 of 2, configurations", settings, tuning_seeds)
    for (method, _), runs in tuning_runs.items():
        trials.setdefault(method, []).append(runs)
    choices = {method: choose(groups, figure) for method, groups in trials.items()}
    chosen = {
        method: settings[method, choice.number]
        for method, choice in choices.items()
        if choice.number is not None
    }
    fresh_runs = runner.make("step 2 of 2, methods", chosen, fresh_seeds)
    rows = [
        result(method, chosen.get(method, {}), fresh_runs.get(method, []), choice, figure)
        for method, choice in choices.items()
    ]
    all_runs = list(itertools.chain(*tuning_runs.values(), *fresh_runs.values()))
    return write_results(comparison, rows, all_runs, folder, console)


@dataclass(frozen=True)
class StepRunner:
    """Makes the runs of a step as a sweep."""

    comparison: Comparison
    folder: Path
    resources: Resources
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
        sweep(plan, self.folder, self.comparison.places, self.resources, self.console)
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


def choose(groups: Sequence[Sequence[Run]], figure: str) -> Choice:
    """Choose a configuration of a method by its mean validation score.

    Configurations with a failed run, or with a run without the compared figure, are left out. Of
    equal configurations the first is chosen.

    Parameters
    ----------
    groups : sequence of sequences of Run
        The runs of each configuration, one per seed.
    figure : str
        The figure that the methods are compared by.
    """
    means = {}
    for number, runs in enumerate(groups):
        scores = [run.figure(SCORE) for run in runs if run.figure(figure) is not None]
        if len(scores) == len(runs) and None not in scores:
            means[number] = float(np.mean(scores))  # type: ignore[arg-type]
    if means:
        best = max(means, key=lambda number: means[number])
        return Choice(best, means[best])
    errors = [run.error for run in itertools.chain(*groups) if run.error]
    return Choice(error=next(iter(errors), f"no run has {SCORE} and {figure}"))

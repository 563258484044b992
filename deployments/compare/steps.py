"""The steps of a comparison: the runs of each, made as a sweep."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.compare.request import COMMAND, Comparison
from curvfed.deployments.resources import Resources
from curvfed.deployments.sweep.plan import file_digest, plan_run
from curvfed.deployments.sweep.results import Results
from curvfed.deployments.sweep.runner import run_sweep
from curvfed.server_app.report import Plan, Planned, Run
from curvfed.tasks.stored_files import write_atomically

Key = TypeVar("Key")


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
        run_sweep(plan, self.folder, self.comparison.places, self.resources, self.console)
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

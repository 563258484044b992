"""The command `curvfed compare`: configurations are chosen by validation, then methods compared on
fresh seeds.

Both steps are sweeps, so that the same command goes on where it was cut off, and makes nothing
twice.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from curvfed.deployments.compare.keys import SCORES
from curvfed.deployments.compare.request import COMMAND, read_comparison
from curvfed.deployments.compare.results import result, write_results
from curvfed.deployments.output_file import make_folder
from curvfed.deployments.pairs import UsageError
from curvfed.deployments.resources import Resources
from curvfed.deployments.sweep.make import exit_status, sweep
from curvfed.deployments.sweep.plan import file_digest, plan_run
from curvfed.deployments.sweep.results import Results
from curvfed.server_app.report import Plan, Run
from curvfed.strategies.base.figures import BEST, VALIDATION
from curvfed.strategies.base.run_keys import home
from curvfed.tasks.stored_files import write_atomically

SCORE = f"{BEST}.metrics.{VALIDATION}"
"""The figure by which configurations are chosen."""


@exit_status
def main(
    console: Console,
    pairs: Sequence[str],
    results: Path | None,
    data: Path | None,
    cpus: int,
    gpus: float,
    address: str,
) -> int:
    """Make what is missing, write the report and print the answer.

    Returns
    -------
    int
        0 all methods are compared, 1 some are not, 2 wrong usage, 130 interrupted.

    Raises
    ------
    ConfigError
        If the methods or their keys can never run.
    """
    resources = Resources(cpus, gpus, address)
    asked = read_comparison(pairs, data)
    text = json.dumps(asked.plan, indent=1)
    own = f"{asked.data}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder = (results or home() / "comparisons" / own).resolve()
    make_folder(folder)
    keep_plan(folder / "plan.json", text)

    contents = cache(file_digest)

    def made(
        step: str, settings: Mapping[Any, Mapping[str, Any]], seeds: Sequence[int]
    ) -> dict[Any, list[Run]]:
        """The runs of a step, one per seed for each of the settings."""
        planned = {
            key: [
                plan_run({**asked.settings, **one, "seed": seed}, COMMAND, contents)
                for seed in seeds
            ]
            for key, one in settings.items()
        }
        plan = Plan(
            COMMAND,
            "",
            f"{asked.data}, {step}",
            "",
            "",
            tuple(run for own in planned.values() for run in own),
        )
        sweep(plan, folder, asked.places, resources, console)
        runs = {run.planned.name: run for run in Results(folder).select(plan)}
        return {key: [runs[run.name] for run in own] for key, own in planned.items()}

    (tuning, fresh) = asked.seeds
    figure = SCORES[asked.score]
    settings = {
        (name, number): {"method": name, **one}
        for name, tried in asked.tried.items()
        for number, one in enumerate(tried)
    }
    trials = made("step 1 of 2, configurations", settings, tuning)
    chosen = {
        name: choose({key: trials[key] for key in trials if key[0] == name}, figure)
        for name in asked.tried
    }
    methods = made(
        "step 2 of 2, methods", {key: settings[key] for key, *_ in chosen.values() if key}, fresh
    )
    rows = [
        result(name, settings.get(key, {}), methods.get(key, []), score, error, figure)
        for name, (key, score, error) in chosen.items()
    ]
    every = [run for group in (*trials.values(), *methods.values()) for run in group]
    return write_results(asked, rows, every, folder, console)


def keep_plan(path: Path, text: str) -> None:
    """Write the plan, or compare it with the one that is there.

    Raises
    ------
    UsageError
        If there is another one; names the first key that differs.
    """
    if not path.exists():
        write_atomically(path, text.encode())
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        now = json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}); name another folder by --results"
        ) from None
    if other := [key for key in {**before, **now} if before.get(key) != now.get(key)]:
        told = [json.dumps(one.get(other[0], "auto")) for one in (before, now)]
        raise UsageError(
            f"{path.parent} holds a comparison with {other[0]} = {told[0]}, not {told[1]}; name"
            " another folder by --results"
        )


def choose(trials: Mapping[Any, Sequence[Run]], figure: str) -> tuple[Any, float | None, str]:
    """Choose the configuration by its mean validation score; one that failed for any seed is out,
    and so is one without the figure that is to be compared.

    Returns
    -------
    key : Any
        Of `trials`; of equal ones the first, None if all are out.
    validation : float or None
    error : str
        Why all are out.
    """
    found = {
        key: [run.figure(SCORE) for run in runs if run.figure(figure) is not None]
        for key, runs in trials.items()
    }
    means = {
        key: float(np.mean(scores))  # type: ignore[arg-type]
        for key, scores in found.items()
        if len(scores) == len(trials[key]) and None not in scores
    }
    if means:
        best = max(means, key=lambda key: means[key])
        return best, means[best], ""
    errors = [run.error for runs in trials.values() for run in runs if run.error]
    return None, None, next(iter(errors), f"no run has {SCORE} and {figure}")

"""What record-level differential privacy costs in accuracy: MNIST, ten clients, one model for all.

    python -m studies.privacy --data FOLDER [--results privacy] [--page docs/measured/privacy.md]

The settings stand here and were committed before the first run; only the row
of rate 1 was added after a result. Each run has a folder of its own among the results and is not
repeated.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curvfed.deployments.inprocess import simulate
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.tasks.stored_files import write_atomically

COMMON: dict[str, Any] = {
    "method": "fedavg",
    "dataset": "mnist",
    "partition": "iid",
    "train-size": 0.99,
    "test-size": 0.0,
    "images.test-subset": 10_000,
    "global-every": 0,
    "fine-tune-epochs": 0,
    "report": False,
}
PRIVATE: dict[str, Any] = {
    "dp.unit": "record",
    "dp.clip": 1.0,
    "local-epochs": 1,
    "learning-rate": 0.1,
    "weight-decay": 0.0,
}
EPSILONS = (1.0, 3.0, 8.0)
SMALL: dict[str, Any] = {
    "images.train-subset": 6_061,
    "open": {"num-rounds": 10},
    # steps on all examples of a client: a release of more examples needs less noise for each
    "private": {"num-rounds": 30, "batch-size": 0},
}
SIZES: dict[str, dict[str, Any]] = {
    "600": SMALL,
    # added after the first row, whose 30 steps of this rate learn too little at any epsilon
    "600-rate-1": SMALL | {"private": SMALL["private"] | {"learning-rate": 1.0}},
    "6000": {
        "images.train-subset": 60_000,
        "open": {"num-rounds": 3},
        "private": {"num-rounds": 8, "batch-size": 1_000},
    },
}
"""By images of a client, which are 1% fewer in training: the open run has the defaults of images,
and the private one fewer and larger steps."""

PAGE = """\
# What record-level privacy costs

    python -m studies.privacy --data FOLDER

MNIST, ten clients with equal parts, `fedavg` on the default network (`cnn`, 44,838 parameters), one
seed. Accuracy of the one model on the 10,000 test images after the last round, in percent. ε is
that of each client's training images against everybody who sees its updates, at δ = 1e-5, for the
whole run. The open run has the defaults of images and no clipping; the private ones have the
settings in `studies/privacy.py`, the same for every ε and chosen before the first run. They are not
tuned: of 600 images a client the first rate, .1, leaves the model far from done after 30 steps at any
ε, so the row of rate 1 was added, and its settings before its first run.

| images a client | open | {heads} |
| --- | --- | {rules} |
{rows}

Noise multipliers and steps:

| images a client | steps | {heads} |
| --- | --- | {rules} |
{noises}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the runs and write the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.privacy")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("privacy"))
    parser.add_argument("--page", type=Path, default=Path("docs/measured/privacy.md"))
    parser.add_argument("--as-is", action="store_true", help="only the runs that are there")
    options = parser.parse_args(arguments)
    folders = {"data-dir": str(options.data), "results-dir": str(options.results)}
    score_of = made_accuracy if options.as_is else accuracy
    rows = []
    noises = []
    for size, settings in SIZES.items():
        common = COMMON | folders | {"images.train-subset": settings["images.train-subset"]}
        number = size.partition("-")[0]
        scores = [score_of(f"{number}-open", common | settings["open"])]
        private = common | PRIVATE | settings["private"]
        for epsilon in EPSILONS:
            scores.append(score_of(f"{size}-{epsilon:g}", private | {"dp.epsilon": epsilon}))
        rows.append(_row(size, *map(_percent, scores)))
        noises.append(_row(size, *noise_figures(private, int(number))))
    page = PAGE.format(
        heads=" | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS),
        rules=" | ".join("---" for _ in EPSILONS),
        rows="\n".join(rows),
        noises="\n".join(noises),
    )
    write_atomically(options.page, page.encode())


def accuracy(name: str, settings: dict[str, Any]) -> float | None:
    """The accuracy of a run, which is made if it is not there."""
    if made_accuracy(name, settings) is None:
        simulate(settings | {"run-name": name}, 10)
    return made_accuracy(name, settings)


def made_accuracy(name: str, settings: dict[str, Any]) -> float | None:
    """The accuracy of a completed run; None without one."""
    summary = RunFiles(Path(settings["results-dir"]) / name).summary
    score: float | None = summary.get("global_accuracy")
    return score if summary.get("status") == "completed" else None


def noise_figures(settings: dict[str, Any], size: int) -> list[str]:
    """The number of steps of a run, and the noise multiplier for each epsilon."""
    from curvfed.strategies.base.privacy_accountant import noise_multiplier

    examples = int(0.99 * size)
    batch = settings["batch-size"] or examples
    steps = settings["num-rounds"] * -(-examples // batch)
    rate = min(1.0, batch / examples)
    return [
        str(steps),
        *(f"{noise_multiplier(epsilon, 1e-5, rate, steps):.2f}" for epsilon in EPSILONS),
    ]


def _percent(score: float | None) -> str:
    return "not run" if score is None else f"{100 * score:.1f}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

"""The README's picture, from nine runs on `trees` (five minutes): python docs/images/make.py

Each method has the settings that the comparison on docs/measured/comparisons.md chose for it, on
other seeds. Runs that are in results-dir already are not repeated.
"""

import csv
import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from curvfed.deployments.inprocess import simulate
from curvfed.strategies.config.run_config import RunConfig

METHODS = {"flatland": "#0072b2", "flatland-euclidean": "#555555", "fedavg": "#d55e00"}
SEEDS = (201, 202, 203)
ROUNDS = 100
TUNED = {
    "flatland": {"learning-rate": 0.0316, "weight-decay": 0.01, "flatland.gate": False},
    "flatland-euclidean": {"learning-rate": 0.1, "weight-decay": 1e-5, "flatland.gate": True},
    "fedavg": {"learning-rate": 0.0316, "weight-decay": 0.01, "model": "gated"},
}
SMOOTH = 5
"""Rounds that a drawn value is the mean of."""


# the height of a label, in points of accuracy: names of curves that end together must not overlap
LABEL = 3.0


def run(method: str, seed: int) -> Path:
    """The directory of a run of ten clients, made if it is not there."""
    name = f"picture-{method}-{seed}"
    folder = RunConfig().results_path / name
    if not (folder / "summary.json").exists():
        settings = {
            "method": method,
            "dataset": "trees",
            "seed": seed,
            "num-rounds": ROUNDS,
            "schedule": "inverse",
            "run-name": name,
        }
        simulate(settings | TUNED[method])
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def accuracy(folder: Path) -> np.ndarray:
    """Mean accuracy of the clients in percent, per round, smoothed: (ROUNDS - SMOOTH + 1,)."""
    scores = [
        float(row["personal_accuracy_mean"])
        for row in rows(folder / "rounds.csv")
        if row["phase"] == "train"
    ]
    return 100 * np.convolve(scores, np.full(SMOOTH, 1 / SMOOTH), mode="valid")


def curvatures(folder: Path) -> np.ndarray:
    """Per client: Forman-Ricci curvature of its graph, its own curvature after the first and the
    last round: (C, 3)."""
    clients = json.loads((folder / "clients.json").read_text())["clients"]
    forman = {client["partition"]: client["statistics"]["forman"] for client in clients}
    curvature = {
        (int(row["round"]), int(row["partition"])): float(row["curvature"])
        for row in rows(folder / "clients.csv")
    }
    return np.array(
        [
            [forman[client], curvature[1, client], curvature[ROUNDS, client]]
            for client in sorted(forman)
        ]
    )


def draw() -> Figure:
    """Accuracy over rounds on the left, curvature of clients on the right."""
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    at = np.arange(SMOOTH, ROUNDS + 1)
    curves = {
        method: np.array([accuracy(run(method, seed)) for seed in SEEDS]) for method in METHODS
    }
    below = np.inf
    for method, scores in sorted(curves.items(), key=lambda item: -item[1][:, -1].mean()):
        colour = METHODS[method]
        left.plot(at, scores.T, color=colour, linewidth=0.7, alpha=0.4)
        left.plot(at, scores.mean(axis=0), color=colour, linewidth=2.2)
        below = min(scores[:, -1].mean(), below - LABEL)
        left.annotate(method, (ROUNDS, below), (4, -3), textcoords="offset points", color=colour)
    left.set(xlabel="round", ylabel="accuracy, mean over clients (%)", xlim=(0, ROUNDS * 1.34))
    left.set_xticks(range(0, ROUNDS + 1, 20))
    forman, first, last = curvatures(run("flatland", SEEDS[0])).T
    right.vlines(forman, first, last, color="#bbbbbb", linewidth=1)
    right.scatter(
        forman, first, s=22, facecolor="white", edgecolor="#777777", label="after the first round"
    )
    right.scatter(forman, last, s=30, color=METHODS["flatland"], label="after the last", zorder=3)
    right.set(
        xlabel="mean Forman–Ricci curvature of a client's graph",
        ylabel="curvature of its Lorentz space",
    )
    right.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#eeeeee")
        axes.set_axisbelow(True)
    return figure


if __name__ == "__main__":
    target = Path(__file__).with_name("trees.png")
    draw().savefig(target, dpi=150)
    print(target)

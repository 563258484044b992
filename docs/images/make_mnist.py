"""The picture of docs/images.md, from nine runs on MNIST (ten minutes): python
docs/images/make_mnist.py DATA

DATA is the folder of the public data sets. Runs that are in results-dir already are not repeated.
"""

import csv
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from curvfed.deployments.inprocess import simulate
from curvfed.extensions.reports.array_files import GlobalTest
from curvfed.extensions.reports.model_figures import project
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import RunConfig

METHODS = {"hyperfed": "#0072b2", "spherefed": "#009e73", "fedavg": "#d55e00"}
SEEDS = (0, 1, 2)
PRESET = dotted(
    tomllib.loads((files("curvfed.presets") / "mnist.toml").read_text(encoding="utf-8"))
)
CLIENTS = 20
DIGITS = 10
# the height of a label, in points of accuracy: names of curves that end together must not overlap
LABEL = 4.0


def run(method: str, seed: int, data: str) -> Path:
    """The directory of a run of the preset `mnist` at alpha .1, made if it is not there."""
    name = f"picture-mnist-{method}-{seed}"
    folder = RunConfig().results_path / name
    if not (folder / "summary.json").exists():
        settings = {
            "method": method,
            "alpha": 0.1,
            "seed": seed,
            "data-dir": data,
            "run-name": name,
        }
        simulate(PRESET | settings, CLIENTS)
    return folder


def accuracy(folder: Path, phase: str = "train") -> np.ndarray:
    """Accuracy of the global model in percent, per round."""
    with (folder / "rounds.csv").open(newline="") as file:
        return np.array(
            [
                100 * float(row["global_accuracy"])
                for row in csv.DictReader(file)
                if row["phase"] == phase
            ]
        )


def draw(data: str) -> Figure:
    """Accuracy over rounds on the left, features in the Poincaré disc on the right."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    curves = {
        method: np.array([accuracy(run(method, seed, data)) for seed in SEEDS])
        for method in METHODS
    }
    calibrated = np.array(
        [accuracy(run("spherefed", seed, data), "calibrate") for seed in SEEDS]
    ).mean()
    below = np.inf
    for method, scores in sorted(curves.items(), key=lambda item: -item[1][:, -1].mean()):
        colour, rounds = METHODS[method], np.arange(1, scores.shape[1] + 1)
        left.plot(rounds, scores.T, color=colour, linewidth=0.7, alpha=0.4)
        left.plot(rounds, scores.mean(axis=0), color=colour, linewidth=2.2)
        below = min(scores[:, -1].mean(), below - LABEL)
        # Outside of the axes, whose end is the last round.
        left.annotate(
            method,
            (rounds[-1], below),
            (8, -3),
            textcoords="offset points",
            color=colour,
            annotation_clip=False,
        )
    star = {"color": METHODS["spherefed"], "markersize": 10, "clip_on": False}
    left.plot(rounds[-1], calibrated, "*", **star)
    left.set(
        xlabel="round",
        xticks=range(0, int(rounds[-1]) + 1, 5),
        ylabel="accuracy of the global model (%)",
        xlim=(0, rounds[-1]),
        ylim=(30, 100),
    )
    left.spines[["top", "right"]].set_visible(False)
    left.grid(color="#eeeeee")
    left.set_axisbelow(True)
    test = GlobalTest.read(run("hyperfed", SEEDS[0], data) / "global_test.npz")
    view = project(test) if test else None
    if test and view:
        colours = colormaps["tab10"]
        right.add_patch(Circle((0, 0), 1, fill=False, color="#999999"))
        right.scatter(
            *view.points.T, s=3, color=colours(test.labels[view.finite] % DIGITS), linewidth=0
        )
        right.scatter(
            *view.prototypes.T,
            s=70,
            marker="*",
            color=colours(np.arange(DIGITS)),
            edgecolor="black",
        )
        right.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
    right.set_axis_off()
    return figure


if __name__ == "__main__":
    target = Path(__file__).with_name("mnist.png")
    draw(sys.argv[1]).savefig(target, dpi=150)
    print(target)

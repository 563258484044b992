"""The picture of docs/points.md, from runs on Olsson's cells (a minute): python
docs/images/make_hull.py DATA

DATA is the folder of the public data sets. Runs that are in results-dir already are not repeated.
"""

import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon

from curvfed.deployments.inprocess import simulate
from curvfed.extensions.reports.hull_figures import outline
from curvfed.extensions.reports.svg_files import svg_file
from curvfed.geometry.hull import convex_hull
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import style
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.run_config import RunConfig
from studies.papers.hull_baselines import accuracies

PRESET = dotted(
    tomllib.loads((files("curvfed.presets") / "hull-olsson.toml").read_text(encoding="utf-8"))
)
CLIENTS = 3
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
PIXEL = 0.002


def run(data: str, epsilon: float) -> Path:
    """The directory of a run of the preset `hull-olsson`, made if it is not there."""
    folder = RunConfig().results_path / f"picture-hull-{epsilon}"
    if not (folder / "summary.json").exists():
        settings = {
            "seed": 0,
            "data-dir": data,
            "run-name": folder.name,
            "hull.epsilon": epsilon,
            "hull.classifier": "svm",
        }
        simulate(PRESET | settings, CLIENTS)
    return folder


def draw(folders: list[Path]) -> Figure:
    """The decoded hulls in their groups on the left, what larger bins cost on the right."""
    figure = Figure(figsize=(9, 3.6))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    left.add_patch(Circle((0, 0), 1, fill=False, color=style.CLIENT))
    hulls = np.load(folders[0] / "hulls.npz")
    for number in np.unique(hulls["hull"]):
        points = hulls["points"][hulls["hull"] == number]
        corners = points[convex_hull(points, float(hulls["curvature"]))]
        group = hulls["group"][hulls["hull"] == number][0]
        look = style.Look.of(group)
        edge = outline(corners, PIXEL)
        left.add_patch(Polygon(edge, facecolor=look.tint, alpha=0.25))
        left.add_patch(Polygon(edge, fill=False, edgecolor=look.colour))
        left.plot(*corners.T, linestyle="", marker=look.marker, markersize=2.5, color=look.colour)
    left.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
    left.set_axis_off()
    summaries = [RunFiles(folder).summary for folder in folders]
    hyperbolic = [100 * summary["global_accuracy"] for summary in summaries]
    flat = [100 * (accuracies(folder, ["accuracy_fle"])["accuracy_fle"] or 0) for folder in folders]
    shared = [100 * summary["metrics"]["hull_share_revealed"] for summary in summaries]
    right.plot(EPSILONS, hyperbolic, color=style.MEAN, label="accuracy, hyperbolic SVM")
    right.plot(EPSILONS, flat, color=style.OTHER, label="accuracy, Euclidean SVM")
    right.plot(
        EPSILONS, shared, color=style.CLIENT, linestyle="--", label="points that leave the clients"
    )
    right.set(xscale="log", xlabel="epsilon", ylabel="%", ylim=(0, 100))
    right.xaxis.set_major_formatter("{x:g}")
    right.legend()
    return figure


if __name__ == "__main__":
    target = Path(__file__).with_name("hull.svg")
    folders = [run(sys.argv[1], epsilon) for epsilon in EPSILONS]
    with style.applied():
        picture = svg_file(draw(folders), target.stem)
    target.write_text(picture, encoding="utf-8")
    print(target)

"""The picture of docs/secure-sums.md, from one run on Olsson's cells (half a minute): python
docs/images/make_hull.py DATA

DATA is the folder of the public data sets. A run that is in results-dir already is not repeated.
"""

import sys
import tomllib
from importlib.resources import files
from pathlib import Path

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon

from curvfed.deployments.inprocess import simulate
from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.report.disc import outline
from curvfed.strategies.base.dotted import dotted
from curvfed.strategies.config.run_config import RunConfig

PRESET = dotted(
    tomllib.loads((files("curvfed.presets") / "hull-olsson.toml").read_text(encoding="utf-8"))
)
CLIENTS = 3
EPSILONS = "0.01,0.02,0.05,0.1,0.2,0.5,1,2,5"
CURVES = (("flp", "hyperbolic SVM", "#0072b2"), ("fle", "Euclidean SVM", "#d55e00"))
PIXEL = 0.002


def run(data: str) -> HullFile:
    """What a run of the preset `hull-olsson` with a sweep leaves, made if it is not there."""
    folder = RunConfig().results_path / "picture-hull"
    if not (folder / "summary.json").exists():
        settings = {
            "seed": 0,
            "data-dir": data,
            "run-name": folder.name,
            "hull.sweep": EPSILONS,
            "hull.classifier": "svm",
        }
        simulate(PRESET | settings, CLIENTS)
    found = HullFile.read(folder / "hulls.npz")
    assert found is not None
    return found


def draw(found: HullFile) -> Figure:
    """The decoded hulls in their groups on the left, what larger bins cost on the right."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    colours = colormaps["Dark2"].colors
    left.add_patch(Circle((0, 0), 1, fill=False, color="#999999"))
    for hull in found.hulls:
        colour = colours[hull.group % len(colours)]
        left.add_patch(
            Polygon(outline(hull.corners, PIXEL), facecolor=(*colour, 0.15), edgecolor=colour)
        )
        left.scatter(*hull.corners.T, s=5, color=[colour])
    left.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
    left.set_axis_off()
    epsilon = found.sweep["epsilon"]
    for name, words, colour in CURVES:
        right.plot(epsilon, 100 * found.sweep[name], color=colour, label=f"accuracy, {words}")
    shared = 100 * found.sweep["share"]
    right.plot(
        epsilon, shared, color="#999999", linestyle="--", label="points that leave the clients"
    )
    right.set(xscale="log", xlabel="epsilon", ylabel="%", ylim=(0, 100))
    right.legend(frameon=False)
    right.spines[["top", "right"]].set_visible(False)
    right.grid(color="#eeeeee")
    right.set_axisbelow(True)
    return figure


if __name__ == "__main__":
    target = Path(__file__).with_name("hull.png")
    draw(run(sys.argv[1])).savefig(target, dpi=150)
    print(target)

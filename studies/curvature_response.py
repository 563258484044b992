"""How the gain of FlatLand on Minesweeper depends on the curvature.

    python -m studies.curvature_response --data FOLDER

The comparison `minesweeper-10` has the settings; here only the curvature changes, on seeds that
tuned no setting. The scores go to `docs/measured/curvature-response.json`, and a page and a
picture beside it.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.extensions.sweeps.commands.paired import paired_difference
from curvfed.server_app.report import charts, style
from curvfed.tasks.stored_files import write_atomically
from studies.accept.lab import Lab

MEASURED = Path(__file__).parents[1] / "docs" / "measured"
COMPARISON = MEASURED / "comparisons" / "minesweeper-10.json"
STORED = MEASURED / "curvature-response.json"

FIXED = (-0.001, -0.01, -0.1, -0.3, -1, -3)
CURVATURES: tuple[float | str, ...] = (0, *FIXED, "auto")
SEEDS = range(1110, 1115)
SETTINGS: dict[str, Any] = {
    "dataset": "minesweeper",
    "method": "flatland",
    "num-supernodes": 10,
    "num-rounds": 30,
    "local-epochs": 3,
    "embedding-dim": 64,
}
"""Those of the comparison."""

ABOUT = """\
# FlatLand on Minesweeper, by curvature

    python -m studies.curvature_response --data folder

makes the runs, this page and its picture. All runs have the settings that the comparison
[`minesweeper-10`](comparisons.md) chose for `flatland`, which are those that
it chose for `flatland` at curvature 0 too; only the curvature changes. ROC-AUC of the clients' own
models in percent, at the round of best validation, mean ± standard deviation over seeds 1110 to
1114. The intervals of the differences are at 95% and hold together. `auto`: each client learns a
curvature of its own.

![ROC-AUC by curvature](curvature-response.png)

| curvature of all clients | ROC-AUC | difference to 0 |
| --- | --- | --- |
"""


def main() -> int:
    """Make the runs, and write the result, the page and the picture."""
    parser = argparse.ArgumentParser(prog="python -m studies.curvature_response")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    configuration = chosen_settings()
    scores: dict[float | str, list[float]] = {}
    settings = {curvature: runs_at(curvature, configuration) for curvature in CURVATURES}
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(options.data.resolve(), Path(folder)) as lab,
    ):
        lab.start(itertools.chain(*settings.values()))
        for curvature in CURVATURES:
            scores[curvature] = [score(lab.summary(keys)) for keys in settings[curvature]]
            print(f"curvature {curvature}: {100 * np.mean(scores[curvature]):.1f}", flush=True)
    entries = [entry(curvature, scores) for curvature in CURVATURES]
    result = {"settings": configuration, "seeds": list(SEEDS), "curvatures": entries}
    write_atomically(STORED, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())
    write_atomically(STORED.with_suffix(".md"), page(entries).encode())
    draw(entries, STORED.with_suffix(".png"))
    return 0


def chosen_settings() -> dict[str, Any]:
    """The settings that the comparison chose for `flatland`.

    Raises
    ------
    ValueError
        If it chose others for `flatland` at curvature 0, which one curve cannot show.
    """
    rows = json.loads(COMPARISON.read_text(encoding="utf-8"))["methods"]
    by_name = {row["method"]: row["configuration"] for row in rows}
    chosen: dict[str, Any] = by_name["flatland"]
    at_zero = by_name["flatland at 0"]
    for key, value in chosen.items():
        if at_zero.get(key) != value:
            raise ValueError(f"{key} is {value}, and {at_zero.get(key)} at curvature 0")
    return chosen


def runs_at(curvature: float | str, configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings of the runs at a curvature, one per seed."""
    keys = {**SETTINGS, **configuration, "flatland.curvature": curvature}
    return [{**keys, "seed": seed} for seed in SEEDS]


def score(summary: Mapping[str, Any]) -> float:
    """The clients' ROC-AUC of a run at the round of best validation."""
    auc: float = summary["best_validation"]["metrics"]["roc_auc"]
    return auc


def entry(curvature: float | str, scores: Mapping[float | str, Sequence[float]]) -> dict[str, Any]:
    """The scores at a curvature, with the interval of the difference to 0."""
    values = scores[curvature]
    difference = paired_difference(values, scores[0], len(CURVATURES) - 1)
    return {
        "name": str(curvature).replace("-", "−"),
        "scores": list(values),
        "mean": float(np.mean(values)),
        "std": float(np.std(values, ddof=1)),
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
    }


def page(entries: Sequence[Mapping[str, Any]]) -> str:
    """The page with the table."""
    lines = []
    for item in entries:
        difference = ""
        if item["name"] != "0":
            ends = [100 * item[key] for key in ("difference", "low", "high")]
            difference = f"{ends[0]:+.1f} ({ends[1]:.1f} to {ends[2]:.1f})"
        score = f"{100 * item['mean']:.1f} ± {100 * item['std']:.1f}"
        lines.append(f"| {item['name']} | {score} | {difference} |".replace("-", "−"))
    return ABOUT + "\n".join(lines) + "\n"


def draw(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The score of each seed and their mean, by curvature."""
    places = np.arange(len(entries))
    means = [100 * item["mean"] for item in entries]
    with style.applied():
        figure, (axes,) = style.panels(1)
        for place, item in zip(places, entries, strict=True):
            points = [100 * value for value in item["scores"]]
            axes.plot([place] * len(points), points, "o", color=style.SOFT, markersize=4)
        axes.plot(places, means, "o-", color=style.MEAN)
        axes.set_xticks(places, [item["name"] for item in entries])
        charts.name(axes, "curvature", "ROC-AUC (%)", "flatland on Minesweeper")
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())

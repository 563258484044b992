"""Tables and figures of the papers' sweeps: they show the runs that their specs name."""

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from scipy import stats

from curvfed.deployments.arguments import UsageError
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.server_app.report import style
from studies.papers.figures.page import draw_figure, read_study
from studies.papers.figures.spec import NothingToDraw
from studies.papers.figures.table import make_table

SOURCE = "sweep.toml"
METHODS = ("fedavg", "hyperfed")
EPOCHS = (10, 1, 5)
SEEDS = (0, 1, 2)
LINES = {"kind": "lines", "x": "local-epochs", "figures": ["global_accuracy"]}
TABLE = {"rows": "method", "columns": "local-epochs", "figures": "global_accuracy"}


def run_of(settings: dict[str, Any], folder: Path = Path("nowhere"), **row: Any) -> Run:
    return Run(Planned(settings, "run"), {"status": "completed", "error": ""} | row, folder)


@pytest.fixture
def runs() -> list[Run]:
    """Accuracy .5 + .01 epochs + .1 for the second method, .02 apart from seed to seed."""
    completed = []
    for method, epochs, seed in itertools.product(METHODS, EPOCHS, SEEDS):
        accuracy = 0.5 + 0.01 * epochs + 0.1 * METHODS.index(method) + 0.02 * (seed - 1)
        settings = {"method": method, "dataset": "digits", "local-epochs": epochs, "seed": seed}
        completed.append(run_of(settings, global_accuracy=accuracy))
    return completed


def drawn(spec: dict[str, Any], runs: list[Run]) -> Any:
    """A figure, laid out."""
    figure = draw_figure(spec, runs, SOURCE)
    FigureCanvasAgg(figure).draw()
    return figure


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_are_means_with_standard_deviations(runs):
    figure = drawn(LINES, runs)
    (axes,) = figure.axes
    heights = {
        to_hex(box.lines[0].get_color()): list(box.lines[0].get_ydata()) for box in axes.containers
    }
    colours = [style.Look.of(number).colour for number in range(len(METHODS))]
    assert heights[colours[0]] == pytest.approx([51, 55, 60])
    assert heights[colours[1]] == pytest.approx([61, 65, 70])
    line, _, (bars,) = axes.containers[0].lines
    assert list(line.get_xdata()) == [1, 5, 10]
    for segment, middle in zip(bars.get_segments(), (51, 55, 60), strict=True):
        assert segment[:, 1] == pytest.approx([middle - 2, middle + 2])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("local epochs", "global accuracy (%)")
    assert legend(figure) == [*METHODS, "± standard deviation over 3 seeds"]


def test_curves_are_smoothed_means_with_bands(tmp_path):
    runs = []
    for seed in (0, 2):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        lines = [f"{number},train,{0.1 * number + 0.05 * seed}" for number in range(1, 7)]
        text = "\n".join(["round,phase,personal_accuracy_mean", *lines, "6,fine-tune,0.99"])
        (folder / "rounds.csv").write_text(text + "\n")
        runs.append(run_of({"method": "flatland", "seed": seed}, folder))
    spec = {"kind": "curves", "y": "personal_accuracy_mean", "smooth": 3}
    (axes,) = drawn(spec, runs).axes
    (line,) = axes.lines
    assert list(line.get_xdata()) == [3, 4, 5, 6]
    assert line.get_ydata() == pytest.approx([25, 35, 45, 55])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((25 - 5 * np.sqrt(2), 55 + 5 * np.sqrt(2)))
    with pytest.raises(NothingToDraw):
        drawn(spec | {"y": "loss"}, runs)


def test_a_table_marks_the_best_of_columns_or_rows_and_significant_differences(runs):
    for run in runs:
        run.row["global_accuracy"] += 0.001 * (run.value("local-epochs") * run.seed % 7)
    table = make_table(TABLE | {"against": "fedavg"}, runs, SOURCE)
    rows = list(csv.DictReader(io.StringIO(table.csv)))
    assert [row["method"] for row in rows if row["best"] == "1"] == ["hyperfed"] * 3
    for row in rows[3:]:
        chosen = [run for run in runs if str(run.value("local-epochs")) == row["local-epochs"]]
        ours, theirs = (
            [100 * run.row["global_accuracy"] for run in chosen if run.value("method") == method]
            for method in ("hyperfed", "fedavg")
        )
        differences = np.subtract(ours, theirs)
        if differences.std() > 1e-9:
            assert float(row["p"]) == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    cells = {names[0]: cells for names, cells in table.text.rows}
    assert all(cell.text.endswith("↑") for cell in cells["hyperfed"])
    assert table.text.legend == "Cells: global accuracy (%), 3 seeds."
    assert not table.ranks_rows
    of_data = TABLE | {"rows": "dataset", "columns": ["method", "local-epochs"]}
    assert make_table(of_data, runs, SOURCE).ranks_rows


def test_a_scale_has_tables_of_its_own(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        '[settings]\nmethod = "fedavg"\n[[tables]]\nrows = "method"\n'
        '[scales.smoke]\n[scales.paper]\n[[scales.paper.tables]]\nrows = "seed"\n'
    )
    assert read_study(file, "smoke").tables == ({"rows": "method"},)
    assert read_study(file, "paper").tables == ({"rows": "seed"},)
    with pytest.raises(UsageError, match="any more, remove it"):
        read_plan(file, "smoke")

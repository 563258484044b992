"""Pictures of a sweep: what they show is what the run directories hold."""

import csv
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from curvfed.extensions.sweeps.commands.pages.pictures import client_scores, draw_pictures
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.server_app.directory import TABLES
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import style

ROUNDS = range(1, 7)
METHODS = ("flatland", "local")
SEEDS = (0, 2)
CLIENTS = range(3)


def completed_run(
    root: Path,
    settings: Mapping[str, Any],
    rounds: Sequence[Mapping[str, Any]] = (),
    clients: Sequence[Mapping[str, Any]] = (),
    best: int | None = None,
    **row: Any,
) -> Run:
    """A completed run with this directory and these figures."""
    folder = root / f"run-{len(list(root.iterdir()))}"
    folder.mkdir()
    for name, rows in (("rounds.csv", rounds), ("clients.csv", clients)):
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, TABLES[name])
            writer.writeheader()
            writer.writerows(rows)
    validation = None if best is None else {"round": best}
    summary = {"status": "completed", "rounds": len(ROUNDS), "best_validation": validation}
    (folder / "summary.json").write_text(json.dumps(summary))
    return Run(Planned(settings, folder.name), {"status": "completed", "error": ""} | row, folder)


def score(number: int, seed: int, client: int = 1) -> float:
    """Grows by rounds, seeds and clients."""
    return 0.1 * number + 0.05 * seed + 0.02 * (client - 1)


def runs_of(root: Path, best: int | None = 2, **extra: Any) -> list[Run]:
    """Two methods of two seeds, with three clients over six rounds."""
    runs = []
    for method, seed in product(METHODS, SEEDS):
        rounds = [
            {"round": number, "phase": "train", "score": score(number, seed)} for number in ROUNDS
        ]
        clients = [
            {
                "round": number,
                "phase": "train",
                "partition": client,
                "score": score(number, seed, client),
            }
            for number, client in product(ROUNDS, CLIENTS)
        ]
        settings = {"method": method, "dataset": "cora", "seed": seed} | extra
        runs.append(completed_run(root, settings, rounds, clients, best))
    return runs


def axes_of(pictures: Sequence[Any]) -> list[Any]:
    """The axes of each picture, laid out."""
    for picture in pictures:
        FigureCanvasAgg(picture.figure).draw()
    return [picture.figure.axes for picture in pictures]


def test_curves_are_means_over_the_seeds_with_bands(tmp_path):
    pictures = draw_pictures(runs_of(tmp_path), tmp_path / "it", pdf=False)
    (axes,), _ = axes_of(pictures)
    for line in axes.lines:
        assert list(line.get_xdata()) == list(ROUNDS)
        assert line.get_ydata() == pytest.approx([15, 25, 35, 45, 55, 65])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((15 - 5 * np.sqrt(2), 65 + 5 * np.sqrt(2)))
    assert axes.get_xlabel() == "round"
    assert axes.get_ylabel() == "test accuracy (%)"
    assert [text.get_text() for text in pictures[0].figure.legends[0].get_texts()] == [*METHODS]


def test_a_box_has_the_clients_of_all_seeds_at_the_best_round(tmp_path):
    runs = runs_of(tmp_path)
    expected = [100 * score(2, 2, client) for client in CLIENTS]
    assert client_scores(RunFiles(runs[1].folder)) == pytest.approx(expected)
    _, (axes,) = axes_of(draw_pictures(runs, tmp_path / "it", pdf=False))
    medians = [line.get_ydata()[0] for line in axes.lines[4::6]]
    of_all = [100 * score(2, seed, client) for seed, client in product(SEEDS, CLIENTS)]
    assert medians == pytest.approx([np.median(of_all)] * 2)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [*METHODS]


def test_without_validation_the_last_round_is_shown(tmp_path):
    run = runs_of(tmp_path, best=None)[0]
    assert client_scores(RunFiles(run.folder)) == pytest.approx(
        [100 * score(6, 0, client) for client in CLIENTS]
    )


@pytest.mark.parametrize(
    ("rate", "every", "is_tuned"),
    [(0.02, 0, True), (10.0, 0, False), (0.02, 2, True)],
    ids=["last", "no gain", "earlier"],
)
def test_fine_tuned_scores_are_shown_where_they_are_those_of_the_best_round(
    rate, every, is_tuned, tmp_path
):
    keys = {"fine_tune_epochs": 10, "fine_tune_learning_rate": rate, "fine_tune_every": every}
    made = run(tmp_path, method="fedavg", num_rounds=6, learning_rate=0.01, **keys)
    best = made.summary["best_validation"]
    phase = "fine-tune" if is_tuned else "train"
    expected = [
        100 * float(row["score"])
        for row in made.clients
        if (int(row["round"]), row["phase"]) == (best["round"], phase)
    ]
    assert np.mean(expected) == pytest.approx(100 * best["personal_accuracy_mean"])
    assert client_scores(RunFiles(made.path)) == pytest.approx(expected)


def test_each_data_set_has_a_panel(tmp_path):
    runs = [*runs_of(tmp_path), *runs_of(tmp_path, dataset="citeseer")]
    for panels in axes_of(draw_pictures(runs, tmp_path / "it", pdf=False)):
        assert [axes.get_title() for axes in panels] == ["cora", "citeseer"]


def test_runs_without_clients_have_boxes_over_the_seeds(tmp_path):
    runs = [
        completed_run(tmp_path, {"method": method, "seed": seed}, global_accuracy=0.5 + 0.1 * seed)
        for method, seed in product(("hull", "discriminant"), (0, 1, 2))
    ]
    (picture,) = draw_pictures(runs, tmp_path / "it", pdf=False)
    ((axes,),) = axes_of([picture])
    assert axes.get_ylabel() == "global accuracy (%)"
    assert axes.lines[4].get_ydata()[0] == pytest.approx(60)
    assert draw_pictures(runs[:1], tmp_path / "it", pdf=False) == []
    assert draw_pictures([Run(run.planned, {}, run.folder) for run in runs], tmp_path, False) == []


@pytest.mark.long
def test_files_are_the_same_every_time(tmp_path):
    runs = runs_of(tmp_path)
    for stem in ("one", "two"):
        draw_pictures(runs, tmp_path / stem, pdf=True)
    for name in ("curves", "boxes"):
        for kind in ("png", "svg", "pdf"):
            first, second = (tmp_path / f"{stem}-{name}.{kind}" for stem in ("one", "two"))
            assert first.read_bytes() == second.read_bytes()
        text = (tmp_path / f"one-{name}.svg").read_text()
        assert ">test accuracy (%)</text>" in text  # text as text
        assert "<dc:date>" not in text
    image = imread(tmp_path / "one-boxes.png")
    assert image.shape[1] == round(style.WIDTH * style.DPI)
    assert (image[0, 0] == 1).all()  # white paper, also where it is shown on dark


def test_names_from_other_machines_do_no_harm(tmp_path):
    names = ["$\\frac{1}$ <script> 漢字 \x00\n", "_underscore %"]
    runs = [run for name in names for run in runs_of(tmp_path, model=name)]
    for picture in draw_pictures(runs, tmp_path / "odd", pdf=False):
        assert "<script>" not in picture.files[1].read_text()

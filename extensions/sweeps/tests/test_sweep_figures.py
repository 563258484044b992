"""Pictures of a sweep: what they show is what the run directories hold, and it can be read."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.image import imread

from curvfed.extensions.sweeps.commands.pages import panels, sweep_page
from curvfed.extensions.sweeps.commands.pages.panels import NothingToDraw
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.server_app.directory import TABLES
from curvfed.server_app.report import style
from curvfed.strategies.errors import ConfigError

SOURCE = "sweep.toml"
ACCURACY = {"kind": "lines", "x": "local-epochs", "figures": ["global_accuracy"]}


def grid(**axes: Any) -> Iterator[dict[str, Any]]:
    """Settings of runs, as a sweep has them; keys are written with _ for -, and __ for the dot."""
    lists = {
        key.replace("__", ".").replace("_", "-"): one if isinstance(one, list) else [one]
        for key, one in axes.items()
    }
    for values in product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def made(
    root: Path,
    settings: Mapping[str, Any],
    row: Mapping[str, Any] | None = None,
    *,
    status: str = "completed",
    rounds: Sequence[Mapping[str, Any]] = (),
    clients: Sequence[Mapping[str, Any]] = (),
    told: Sequence[Mapping[str, Any]] = (),
    summary: Mapping[str, Any] | None = None,
) -> Run:
    """A run with these figures and this directory; `told` are the clients' statistics."""
    folder = root / f"run-{len(list(root.iterdir()))}"
    folder.mkdir()
    for name, columns, rows in (
        ("rounds", TABLES["rounds.csv"], rounds),
        ("clients", TABLES["clients.csv"], clients),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    names = [
        f"c{number}" for number in range(len((told[0] if told else {}).get("class_counts", ())))
    ]
    about = [
        {"partition": number, "metric": "accuracy", "class_names": names, "statistics": one}
        for number, one in enumerate(told)
    ]
    (folder / "clients.json").write_text(
        json.dumps({"clients": about, "facts": {"class_names": names}})
    )
    (folder / "summary.json").write_text(
        json.dumps({"status": status, "rounds": 3} | dict(summary or {}))
    )
    return Run(
        Planned(settings, folder.name),
        {"run": folder.name, "status": status, "error": ""} | dict(row or {}),
        folder,
    )


def draw(spec: Mapping[str, Any], runs: Sequence[Run]) -> Any:
    """A figure, laid out."""
    figure = sweep_page.draw_figure(spec, runs, SOURCE)
    FigureCanvasAgg(figure).draw()
    return figure


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()] if figure.legends else []


def means(axes: Any) -> dict[str, list[float]]:
    """Of error bars: heights by colour."""
    return {
        to_hex(box.lines[0].get_color()): list(box.lines[0].get_ydata()) for box in axes.containers
    }


def epochs(
    root: Path, methods: Sequence[str] = ("fedavg", "hyperfed"), seeds: Sequence[int] = (0, 1, 2)
) -> list[Run]:
    """Accuracy .5 + .01 epochs + .1 for the second method, .02 apart from seed to seed."""
    return [
        made(
            root,
            one,
            {
                "global_accuracy": (
                    0.5
                    + 0.01 * one["local-epochs"]
                    + 0.1 * methods.index(one["method"])
                    + 0.02 * (one["seed"] - 1)
                )
            },
        )
        for one in grid(
            method=list(methods), dataset="digits", local_epochs=[10, 1, 5], seed=list(seeds)
        )
    ]


# Lines


def test_lines_are_means_with_standard_deviations(tmp_path):
    figure = draw(ACCURACY, epochs(tmp_path))
    (axes,) = figure.axes
    fedavg, hyperfed = (
        style.Look.of(panels.ORDER.index(name)).colour for name in ("fedavg", "hyperfed")
    )
    assert {colour: pytest.approx(values) for colour, values in means(axes).items()} == {
        fedavg: [51, 55, 60],
        hyperfed: [61, 65, 70],
    }
    line, _, (bars,) = axes.containers[0].lines
    assert list(line.get_xdata()) == [1, 5, 10]
    for segment, middle in zip(bars.get_segments(), (51, 55, 60), strict=True):
        assert segment[:, 1] == pytest.approx([middle - 2, middle + 2])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("local epochs", "global accuracy (%)")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "5", "10"]
    assert legend(figure) == ["fedavg", "hyperfed", "± standard deviation over 3 seeds"]


# Bars


# Curves


def test_curves_are_smoothed_means_with_bands(tmp_path):
    def rounds(seed: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {
                "round": number,
                "phase": "train",
                "personal_accuracy_mean": 0.1 * number + 0.05 * seed,
            }
            for number in range(1, 7)
        ]
        return [*rows, {"round": 6, "phase": "fine-tune", "personal_accuracy_mean": 0.99}]

    runs = [
        made(tmp_path, one, rounds=rounds(one["seed"]))
        for one in grid(method=["flatland", "local"], seed=[0, 2])
    ]
    figure = draw({"kind": "curves", "y": "personal_accuracy_mean", "smooth": 3}, runs)
    (axes,) = figure.axes
    for line in axes.lines:
        assert list(line.get_xdata()) == [3, 4, 5, 6]
        assert line.get_ydata() == pytest.approx([25, 35, 45, 55])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((25 - 5 * np.sqrt(2), 55 + 5 * np.sqrt(2)))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "personal accuracy (%)")
    assert legend(figure) == ["flatland", "local", "± standard deviation over 2 seeds"]
    tuned = draw({"kind": "curves", "y": "personal_accuracy_mean", "phase": "fine-tune"}, runs)
    assert [list(line.get_ydata()) for line in tuned.axes[0].lines] == [[99], [99]]
    with pytest.raises(
        NothingToDraw, match=r"rounds.csv of no completed run has loss in phase train"
    ):
        draw({"kind": "curves", "y": "loss"}, runs)
    with pytest.raises(ConfigError, match=r"smooth = 0 .* allowed is a whole number >= 1"):
        draw({"kind": "curves", "y": "loss", "smooth": 0}, runs)


# All kinds


def test_every_kind_is_there_and_wants_its_own_parts(tmp_path):
    assert {"bars", "curves", "lines"} <= sweep_page.KINDS.keys()
    runs = epochs(tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"sweep\.toml: kind = 'pie' in \[\[figures\]\]; allowed is one of bars, ",
    ):
        draw({"kind": "pie"}, runs)
    with pytest.raises(ConfigError, match="kind = 'series'"):
        draw({"kind": "series"}, runs)
    with pytest.raises(
        ConfigError,
        match="'colour' is not known in a figure of kind lines; allowed are figures, kind",
    ):
        draw(ACCURACY | {"colour": "red"}, runs)
    with pytest.raises(ConfigError, match="base = 'x' in a figure; allowed is a number"):
        draw({"kind": "bars", "base": "x"}, runs)
    with pytest.raises(ConfigError, match="'epochs' is not a key of the run config"):
        draw(ACCURACY | {"x": "epochs"}, runs)
    with pytest.raises(
        ConfigError,
        match=r"'global_acuracy' is not a figure of these runs; did you mean 'global_accuracy'\?",
    ):
        draw(ACCURACY | {"figures": "global_acuracy"}, runs)
    nearest = r"is not a column of rounds\.csv; did you mean 'personal_accuracy_mean'\?"
    with pytest.raises(ConfigError, match=nearest):
        draw({"kind": "curves", "y": [["loss", "personal_accuracy_meen"]]}, runs)
    with pytest.raises(ConfigError, match=nearest):
        draw(ACCURACY | {"figures": "rounds.personal_accuracy_meen"}, runs)
    with pytest.raises(ConfigError, match="a figure of kind lines needs x"):
        draw({"kind": "lines", "figures": "global_accuracy"}, runs)
    with pytest.raises(ConfigError, match="a figure of kind bars needs figures"):
        draw({"kind": "bars", "x": "local-epochs"}, runs)
    with pytest.raises(ConfigError, match="a figure of kind curves needs y"):
        draw({"kind": "curves"}, runs)
    with pytest.raises(
        ConfigError,
        match=r"runs of one point differ in local-epochs \(1, 10, 5\): name it in where",
    ):
        draw(ACCURACY | {"x": "dataset"}, runs)
    with pytest.raises(ConfigError, match="no run of the sweep has"):
        draw(ACCURACY | {"where": {"method": "local"}}, runs)


# Files


def test_files_are_the_same_every_time(tmp_path):
    runs = epochs(tmp_path)
    for stem in ("one", "two"):
        style.save(sweep_page.draw_figure(ACCURACY, runs, SOURCE), tmp_path / stem)
    for kind in ("png", "svg"):
        first, second = ((tmp_path / f"{stem}.{kind}") for stem in ("one", "two"))
        assert first.read_bytes() == second.read_bytes()
    text = (tmp_path / "one.svg").read_text()
    assert ">global accuracy (%)</text>" in text  # text as text
    assert "<dc:date>" not in text
    image = imread(tmp_path / "one.png")
    assert image.shape[1] == round(style.WIDTH * style.DPI)
    assert (image[0, 0] == 1).all()  # white paper, also where it is shown on dark


def test_names_from_other_machines_do_no_harm(tmp_path):
    runs = epochs(tmp_path)
    odd = {"fedavg": "$\\frac{1}$ <script> 漢字 \x00\n", "hyperfed": "_underscore %"}
    style.save(sweep_page.draw_figure(ACCURACY | {"names": odd}, runs, SOURCE), tmp_path / "odd")
    assert "<script>" not in (tmp_path / "odd.svg").read_text()

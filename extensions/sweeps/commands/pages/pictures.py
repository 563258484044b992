"""The pictures of a sweep: scores by round, a line for each configuration, and scores of the
clients, a box for each."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.extensions.sweeps.commands.pages.selection import Run, usual_figures, varying_keys
from curvfed.extensions.sweeps.commands.pages.study import Place, place_words
from curvfed.geometry.arrays import Floats
from curvfed.server_app.directory.run_files import IN_ROUNDS, RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Picture
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY, find
from curvfed.strategies.wire.messages import FINE_TUNE, TRAIN

SCORE = "score"
"""The column of `rounds.csv` and `clients.csv` with the score by the data's own metric."""

BY_ROUND = (SCORE, GLOBAL_ACCURACY)
"""Columns of `rounds.csv`; the first that a run has is drawn."""

MARKS = 7
"""Marks along a line."""


def draw_pictures(runs: Sequence[Run], stem: Path, pdf: bool) -> list[Picture]:
    """Draw curves and scores of completed runs into files that begin with `stem`, as `pdf` too."""
    configurations: dict[Place, list[Run]] = {}
    keys = varying_keys(runs)
    for run in runs:
        if run.is_completed:
            configurations.setdefault(run.place(keys), []).append(run)
    pictures = []
    for name, draw in (("curves", draw_curves), ("boxes", draw_boxes)):
        with style.applied():
            picture = draw(configurations)
        if picture is not None:
            pictures.append(picture.saved(stem.with_name(f"{stem.name}-{name}"), pdf))
    return pictures


def draw_curves(configurations: Mapping[Place, Sequence[Run]]) -> Picture | None:
    """Draw means over the seeds by round, and bands of one standard deviation; None without
    values."""
    files = {
        place: [RunFiles(run.folder) for run in runs] for place, runs in configurations.items()
    }
    for column in BY_ROUND:
        courses = {place: _course(of_place, column) for place, of_place in files.items()}
        courses = {place: course for place, course in courses.items() if len(course)}
        if courses:
            break
    else:
        return None
    panels = _by_dataset(courses)
    labels = _score_labels(files) if column == SCORE else {}
    figure, all_axes = style.panels(len(panels))
    looks = _looks(panels)
    for (title, lines), axes in zip(panels.items(), all_axes, strict=True):
        for place, course in lines.items():
            look = looks[place]
            step = max(len(course) // MARKS, 1)
            marks = {"marker": look.marker, "markevery": step, "linestyle": look.dashes}
            low = course["mean"] - course["std"]
            high = course["mean"] + course["std"]
            axes.plot(course.index, course["mean"], color=look.colour, **marks)
            axes.fill_between(course.index, low, high, color=look.colour, alpha=0.15, linewidth=0)
        charts.over_rounds(axes, "")
        charts.name(axes, "round", labels.get(title, find(column).label), title)
    keys = [
        charts.key(words, color=look.colour, marker=look.marker, linestyle=look.dashes)
        for place, look in looks.items()
        if (words := place_words(place))
    ]
    legends.legend(figure, keys)
    title = "Score by round"
    caption = f"{title}: mean over the seeds, and one standard deviation above and below it."
    return Picture(figure, title, caption)


def _course(files: Sequence[RunFiles], column: str) -> pd.DataFrame:
    """Mean and deviation over the seeds, in the rounds that all seeds with values have."""
    courses = []
    for run in files:
        rounds, values = run.by_round(column, TRAIN)
        if len(values):
            courses.append(pd.Series(find(column).scale * values, rounds))
    if not courses:
        return pd.DataFrame()
    by_seed = pd.concat(courses, axis=1, join="inner")
    return pd.DataFrame({"mean": by_seed.mean(axis=1), "std": by_seed.std(axis=1)})


def draw_boxes(configurations: Mapping[Place, Sequence[Run]]) -> Picture | None:
    """Draw the clients' scores of all seeds, or without any the first usual figure over the seeds;
    None if there are less than two values of each configuration."""
    title = "Scores of the clients"
    caption = (
        f"{title}, of all seeds, at the round of best validation, or after the last round without"
        " validation. A box: the middle half, with the median; whiskers: at most 1.5 times its"
        " length."
    )
    files = {
        place: [RunFiles(run.folder) for run in runs] for place, runs in configurations.items()
    }
    labels = _score_labels(files)
    label = find(SCORE).label
    values = {
        place: np.concatenate([client_scores(run) for run in of_place])
        for place, of_place in files.items()
    }
    if not any(len(scores) for scores in values.values()):
        column = usual_figures([run for runs in configurations.values() for run in runs])[0]
        kind = find(column)
        title = "Scores over the seeds"
        caption = f"{title}. A box: the middle half, with the median."
        label = kind.label
        labels = {}
        values = {
            place: kind.scale * np.array([run.figure(column) for run in runs], float)
            for place, runs in configurations.items()
        }
    values = {place: scores[np.isfinite(scores)] for place, scores in values.items()}
    if max(map(len, values.values()), default=0) < 2:
        return None
    panels = _by_dataset(values)
    looks = _looks(panels)
    figure, all_axes = style.panels(len(panels))
    for (dataset, boxes), axes in zip(panels.items(), all_axes, strict=True):
        drawn = axes.boxplot(
            list(boxes.values()),
            positions=range(len(boxes)),
            patch_artist=True,
            medianprops={"color": style.INK},
        )
        for patch, place in zip(drawn["boxes"], boxes, strict=True):
            patch.set(facecolor=looks[place].tint, edgecolor=looks[place].colour)
        axes.grid(False, axis="x")
        legends.categories(axes, [place_words(place) for place in boxes])
        charts.name(axes, "", labels.get(dataset, label), dataset)
    return Picture(figure, title, caption)


def client_scores(files: RunFiles) -> Floats:
    """The printed score of each client at the round of best validation, or the last one without."""
    best = files.summary.get(BEST) or {}
    number: Any = best.get("round", files.summary.get("rounds"))
    scores = _scores_in(files, number, IN_ROUNDS)
    tuned = _scores_in(files, number, (FINE_TUNE,), first=number)
    # Both kinds of a round compete by validation, and the figure says which one is the best.
    if len(tuned) and (not best or math.isclose(tuned.mean(), _score_of(best, files.metric))):
        scores = tuned
    return find(SCORE).scale * scores


def _scores_in(files: RunFiles, last: int, phases: Sequence[str], first: int = 0) -> Floats:
    """The last score of each client in the phases of these rounds."""
    rounds, values = files.by_client(SCORE, *phases)
    values = values[(rounds >= first) & (rounds <= last)]
    scores = charts.carried_forward(values)[-1] if len(values) else np.zeros(0)
    return scores[np.isfinite(scores)]


def _score_of(best: Mapping[str, Any], metric: str) -> float:
    """The mean score of the round of best validation; NaN if no client has one."""
    mean = best[PERSONAL_ACCURACY] if metric == "accuracy" else best["metrics"][metric]
    return math.nan if mean is None else mean


def _score_labels(files: Mapping[Place, Sequence[RunFiles]]) -> dict[str, str]:
    """By data set, the name of its score, of those with one metric."""
    metrics: dict[str, set[str]] = {}
    for place, runs in files.items():
        names = metrics.setdefault(_dataset(place), set())
        names |= {run.metric_name for run in runs}
    return {title: f"test {min(names)} (%)" for title, names in metrics.items() if len(names) == 1}


def _dataset(place: Place) -> str:
    """The data set of a configuration, the title of a panel."""
    return str(dict(place).get("dataset", ""))


def _by_dataset(contents: Mapping[Place, Any]) -> dict[str, dict[Place, Any]]:
    """Group the contents of configurations by data set, the title of a panel."""
    panels: dict[str, dict[Place, Any]] = {}
    for place, content in contents.items():
        title = _dataset(place)
        other_settings = tuple(setting for setting in place if setting[0] != "dataset")
        panels.setdefault(title, {})[other_settings] = content
    return panels


def _looks(panels: Mapping[str, Mapping[Place, Any]]) -> dict[Place, style.Look]:
    """A look for each configuration, the same in all panels."""
    places = dict.fromkeys(place for panel in panels.values() for place in panel)
    return {place: style.Look.of(number) for number, place in enumerate(places)}

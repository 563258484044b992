"""The baselines of the paper on hulls (Section 6.1 and Appendix I.3), for runs that have completed:
classifiers of the same hulls, and of all points in one place."""

import sqlite3
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry import EuclideanSVM, PoincareSVM
from curvfed.geometry.hull import convex_hull

# C as the runs choose theirs, the logistic model of tangent vectors, and hulls by index: what the
# runs themselves use, so that nothing but the baseline differs. No public function has them.
from curvfed.geometry.linear_classifiers import Log0Logistic, best_c

# The plain hinge, for runs with hull.svm = "hinge".
from curvfed.geometry.margin import hinge_margin
from curvfed.geometry.svm import PoincareHingeSVM

# The figures have words and units in tables, as those of a plug-in.
from curvfed.strategies.base.figure import METRIC, Figure
from curvfed.strategies.base.figures import register
from curvfed.strategies.base.keys import dotted

# The points of a data set and its split, which no public function gives.
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults, resolve_defaults
from curvfed.tasks.points.dataset import PointDataset

Points = NDArray[np.float64]
Labels = NDArray[np.int64]
Model = Callable[[float], Any]
Compute = Callable[..., Mapping[str, float | None]]

BASELINES = {
    "accuracy_fle": "accuracy, Euclidean SVM on the hulls (FLE)",
    "accuracy_cp": "accuracy, Poincaré SVM on all points (CP)",
    "accuracy_ce": "accuracy, Euclidean SVM on all points (CE)",
    "accuracy_ch_cp": "accuracy, Poincaré SVM on hulls of all points (CH-CP)",
    "accuracy_ch_ce": "accuracy, Euclidean SVM on hulls of all points (CH-CE)",
    "accuracy_logistic": "accuracy, logistic on all points",
}
"""Words of the figures, by their names."""

register(
    *(
        Figure(name, words, (METRIC,), "%", 1, 0.0, 1.0, better="more")
        for name, words in BASELINES.items()
    )
)


class EuclideanHingeSVM(EuclideanSVM):  # type: ignore[misc]
    """`EuclideanSVM` with the plain hinge."""

    soft_margin = staticmethod(hinge_margin)


def accuracies(folder: Path, names: Iterable[str]) -> dict[str, float | None]:
    """Accuracy of baselines on the test points of a run.

    Parameters
    ----------
    folder : Path
        The directory of a completed run of `hull` in a simulation.
    names : iterable of str
        Of `BASELINES`.

    Returns
    -------
    dict
        None for a baseline that cannot be trained, as with a hard margin.
    """
    settings = dotted(tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")))
    keys = defaults()
    config = resolve_defaults(
        parse({key: settings[key] for key in settings if key in keys}), "points"
    )
    run: Any = config.table("hull")
    cost = np.inf if run.svm == "hard" else run.c
    is_hinge = run.svm == "hinge"
    flat: Model = EuclideanHingeSVM if is_hinge else EuclideanSVM
    curved = PoincareHingeSVM if is_hinge else PoincareSVM
    dataset = PointDataset.of_run(config)
    pooled = dataset.pooled()
    test = dataset.test()
    assert test is not None
    classes = np.array(pooled.class_names)
    tested = np.array(test.class_names)[test.labels]
    scores: dict[str, float | None] = {}
    for name in names:
        curvature = config.points.curvature
        make: Model = flat if name.endswith(("fle", "ce")) else partial(curved, curvature)
        points, labels = pooled.train_points, pooled.train_labels
        words = classes
        c = cost
        if name == "accuracy_fle":
            with np.load(folder / "hulls.npz") as hulls:
                points, labels, words = hulls["points"], hulls["group"], hulls["names"]
        if name == "accuracy_logistic":  # its C is not that of an SVM
            make = partial(Log0Logistic, curvature)
            c = None
        if "_ch_" in name:
            corners = _hull_corners(points, labels, curvature)
            points, labels = points[corners], labels[corners]
        try:
            model = _trained(make, points, labels, c, config.seed)
        except ValueError:
            scores[name] = None
        else:
            scores[name] = float((words[model.predict(test.points)] == tested).mean())
    return scores


def add_to_table(
    results: Path,
    runs: Sequence[str],
    figures: Iterable[str],
    words: Mapping[str, str] = BASELINES,
    compute: Compute = accuracies,
) -> None:
    """Write the baselines that tables and figures name beside the runs' own figures, into
    `results.sqlite`; those that are there are not computed again.

    Parameters
    ----------
    results : Path
        The folder of the runs of sweeps.
    runs : sequence of str
        The names of runs of `hull`; those that have not completed are left out.
    figures : iterable of str
        Such as `metrics.accuracy_fle`; others than those of `words` are left out.
    words : mapping of str to str
        The figures that `compute` finds, and their words.
    compute : callable
        From a run's folder and the names of figures to their values.
    """
    columns = [name for name in figures if name.removeprefix("metrics.") in words]
    if not columns or not (results / "results.sqlite").exists():
        return
    with closing(sqlite3.connect(results / "results.sqlite", timeout=60)) as database:
        there = {name for _, name, *_ in database.execute("PRAGMA table_info(runs)")}
        for name in columns:
            if name not in there:
                database.execute(f'ALTER TABLE runs ADD COLUMN "{name}"')
        done = " OR ".join(f'"{name}" IS NULL' for name in columns)
        query = f"SELECT run FROM runs WHERE status = 'completed' AND ({done})"
        todo = sorted({run for (run,) in database.execute(query)} & set(runs))
        names = [name.removeprefix("metrics.") for name in columns]
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            trained = pool.map(partial(compute, names=names), [results / run for run in todo])
            for run, scores in zip(todo, trained, strict=True):
                setting = ", ".join(f'"metrics.{name}" = ?' for name in scores)
                database.execute(
                    f"UPDATE runs SET {setting} WHERE run = ?", (*scores.values(), run)
                )
                database.commit()


def _hull_corners(points: Points, labels: Labels, curvature: float) -> NDArray[np.intp]:
    """Indices of the vertices of every class's hull."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return np.concatenate([mine[convex_hull(points[mine], curvature)] for mine in members])


def _trained(make: Model, points: Points, labels: Labels, cost: float | None, seed: int) -> Any:
    """A model with this C, or with the best one by cross-validation."""
    return make(cost or best_c(make, points, labels, seed=seed)).fit(points, labels)

"""Predictions on points in the Poincaré disc: a file, or a run's own data set."""

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.deployments.trained_run import PredictError, Prediction, TrainedRun
from curvfed.strategies.config import RunConfig
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.point_data import point_spec
from curvfed.tasks.errors import DataError
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.points.client_points import Booleans, Floats
from curvfed.tasks.points.data import load_own, load_test, load_test_file
from curvfed.tasks.points.datasets import OLSSON, locate
from curvfed.tasks.points.readers import READERS, RawPoints, check_inside, raw_points, read_points


@dataclass(frozen=True, eq=False)
class _Shown:
    """What the classifier is shown.

    Attributes
    ----------
    points : (n, 2)
    labels : list of str
        The class of each; empty where the file has none.
    scored : (n,), bool
        Those that the classifier is scored on.
    which : str
        These, in words; "" for none.
    """

    points: Floats
    labels: list[str]
    scored: Booleans
    which: str


def predict_points(run: TrainedRun, data: str | Raw, client: int | None = None) -> Prediction:
    """Predict the classes of all points of `data`: of a file, of the run's own data set, or in memory.

    Raises
    ------
    PredictError, DataError
        If something is absent, or data and classifier do not fit together.
    """
    if client is not None:
        raise PredictError(
            f"--client is {client}; allowed is none: {run.config.method} leaves one classifier for all, and nothing at the "
            "clients"
        )
    classifier = _classifier(run)
    shown = (
        _in_memory(run, data)
        if not isinstance(data, str)
        else _own(run, data)
        if _is_own(run, data)
        else _given(run, Path(data).expanduser())
    )
    names = np.array([name or f"group {number + 1}" for number, name in enumerate(run.groups)])
    predicted = classifier.predict(shown.points)
    chances = classifier.probabilities(shown.points)[
        np.arange(len(predicted)), np.searchsorted(classifier.groups, predicted)
    ]
    return Prediction(
        "point",
        [str(number) for number in range(len(predicted))],
        names[predicted].tolist(),
        torch.from_numpy(chances),
        {"method": run.config.method, "model": _in_words(classifier)} | _scores(run, shown, predicted),
    )


def _classifier(run: TrainedRun) -> Classifier:
    try:
        classifier = Classifier.from_arrays(run.arrays)
        if classifier.curvature != run.config.points.curvature or classifier.groups[-1] >= len(run.groups):
            raise ValueError("it does not fit the configuration or the groups")
    except ValueError as error:
        raise PredictError(f"{run.path / 'model.safetensors'} is not the model of a run: {error}") from None
    return classifier


def _in_words(classifier: Classifier) -> str:
    kinds = {"poincare": "SVM in the disc", "euclidean": "Euclidean SVM", "logistic": "logistic on tangent vectors"}
    return f"global, {kinds[classifier.kind]}, C = {classifier.c:g}, trained on the clients' hulls"


def _scores(run: TrainedRun, shown: _Shown, predicted: NDArray[np.int64]) -> dict[str, str]:
    """What the points are, and the share of those of known class that are in a group of that name."""
    told = {"points": str(len(predicted))}
    unnamed = sum(not name for name in run.groups)
    if unnamed:
        told["groups"] = (
            f"{unnamed} of {len(run.groups)} have no name, for the run's server had no labelled points of their class "
            "(test-data)"
        )
    if not (shown.scored.any() and any(run.groups)):
        return told
    if not set(shown.labels) & set(run.groups):
        return told | {
            "classes": f"none of those of the data is one of the run's, {', '.join(filter(None, run.groups))}"
        }
    told["points"] += f", {shown.scored.sum()} to score on"
    right = np.array(run.groups)[predicted] == np.array(shown.labels)
    return told | {f"accuracy on {shown.which}": f"{right[shown.scored].mean():.4f}"}


def _is_own(run: TrainedRun, data: str) -> bool:
    """Whether `data` is the run's data set, by name or as the same file, and its clients had parts of that."""
    if _brought_data(run):
        return False
    config = run.config
    if data.lower() == config.dataset.lower():
        return True
    try:
        named = config.dataset.lower() == "olsson"  # which must not be downloaded to be compared
        source = OLSSON.folder(config.data_path) if named else locate(config.dataset, config.data_path)
        source = source / OLSSON.files[0] if named and source else source
    except DataError:
        return False
    given = Path(data).expanduser()
    return source is not None and given.exists() and source.exists() and os.path.samefile(given, source)


def _brought_data(run: TrainedRun) -> bool:
    """Whether no client had a part of the run's data set."""
    return all(met.owns_data for met in run.clients.values())


def _own(run: TrainedRun, data: str) -> _Shown:
    """The global test points, as the run's server had them."""
    spec = point_spec(run.config)
    if run.config.test_data in ("auto", "none"):
        test = load_test(spec)
    else:
        test = load_test_file(Path(run.config.test_data), spec)
    if test is None:
        raise PredictError(f"{data} has no test points")
    labels = [test.class_names[label] for label in test.labels]
    return _Shown(test.points, labels, test.test, "the global test points")


def _in_memory(run: TrainedRun, raw: Raw) -> _Shown:
    assert isinstance(raw, RawPoints)
    check_inside("the data", raw.points, run.config.points.curvature)
    return _Shown(raw.points, [], np.zeros(len(raw.points), dtype=np.bool_), "")


def _given(run: TrainedRun, path: Path) -> _Shown:
    """The user's own points."""
    config = run.config
    if path.suffix.lower() not in READERS or not path.is_file():
        kinds = [] if _brought_data(run) else [f'"{config.dataset}", the run\'s own']
        raise PredictError(
            f'DATA is "{path}"; allowed is {", or ".join([*kinds, "a file of points"])}: {", ".join(READERS)}'
        )
    spec = point_spec(config)
    bare = _unlabelled(path, config)
    if bare is not None:
        check_inside(str(path), bare, spec.curvature)
        return _Shown(bare, [], np.zeros(len(bare), dtype=np.bool_), "")
    raw = read_points(path, spec.curvature, spec.embedding_key, spec.label_key)
    labels = [raw.class_names[label] for label in raw.labels]
    own = load_own(path, spec)
    if own.digest in {met.digest for met in run.clients.values() if met.owns_data}:
        kept = np.isin(labels, spec.kept) if spec.kept else np.ones(len(labels), dtype=np.bool_)
        scored = np.zeros(len(labels), dtype=np.bool_)
        scored[np.flatnonzero(kept)[own.test]] = True
        return _Shown(raw.points, labels, scored, "the test points")
    if raw.test is not None:
        return _Shown(raw.points, labels, raw.test, "the test points")
    return _Shown(raw.points, labels, np.ones(len(labels), dtype=np.bool_), "all points")


def _unlabelled(path: Path, config: RunConfig) -> Floats | None:
    """The points of a file without classes; None where there are some.

    Raises
    ------
    DataError
        If they are no finite pairs.
    """
    try:
        points = _BARE[path.suffix.lower()](path, config)
    except Exception:  # every format has errors of its own, and the reader of whole files tells them
        return None
    if points is None:
        return None
    return raw_points(str(path), points, np.zeros(len(points), dtype=np.int64), ("coordinates", "classes")).points


def _bare_npz(path: Path, config: RunConfig) -> Any:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        if "y_train" in stored or "y_test" in stored:
            return None
        parts = [stored[name] for name in ("x_train", "x_test") if name in stored]
        if not parts and len(stored.files) == 1:
            parts = [stored[stored.files[0]]]
        return np.concatenate(parts) if parts else None


def _bare_csv(path: Path, config: RunConfig) -> Any:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    rows = [row for row in rows if any(row)]
    if not rows or {len(row) for row in rows} != {2}:
        return None
    table = np.array([[_number(cell) for cell in row] for row in rows])
    has_header = not any(_number(cell) == _number(cell) for cell in rows[0])
    return table[1:] if has_header else table


def _bare_h5ad(path: Path, config: RunConfig) -> Any:
    import anndata

    stored = anndata.read_h5ad(path, backed="r")
    try:
        if config.points.label_key in stored.obs:
            return None
        return np.asarray(stored.obsm[config.points.embedding_key])
    finally:
        stored.file.close()


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


_BARE: dict[str, Callable[[Path, RunConfig], Any]] = {".npz": _bare_npz, ".csv": _bare_csv, ".h5ad": _bare_h5ad}

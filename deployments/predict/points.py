"""Points in the Poincaré disc to predict: a file, or a run's own data set; and the classifier of
a one-shot run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.deployments.predict.classifier_program import classifier_of
from curvfed.deployments.predict.prediction import (
    Examples,
    Prediction,
    is_own,
    prediction,
)
from curvfed.deployments.predict.trained_run import PredictError, RequestError, TrainedRun
from curvfed.strategies.config.one_shot import server_class
from curvfed.tasks.formats import format_of
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.points.client_points import ClientPoints, Floats, RawPoints, check_inside
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from curvfed.tasks.points.readers import READERS, read_points
from curvfed.tasks.sources import OLSSON

KINDS = {
    "poincare": "SVM in the disc",
    "logistic": "logistic on tangent vectors",
    "plane": "multinomial on x and y",
    "lorentz": "multinomial on Lorentz coordinates",
    "depth": "median depth in hulls",
    "quadratic": "quadratic in tangent vectors",
}


def point_examples(
    run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None
) -> Examples:
    """All points of `data`: of a file, of the run's own data set, or in memory.

    Raises
    ------
    PredictError, DataError
        If a file is missing, or the data do not fit the run.
    """
    has_partition = any(record.partition_digest for record in run.clients.values())
    # A named data set must not be downloaded for the comparison.
    file = Path(run.config.dataset).expanduser()
    if run.config.dataset.lower() == "olsson":
        file = Path(OLSSON.folders[0], OLSSON.files[0])
    if isinstance(data, RawPoints):
        check_inside("the data", data.points, run.config.points.curvature)
        return _examples(data.points, [], np.zeros(len(data.points), dtype=np.bool_))
    if has_partition and is_own(run, str(data), [file, run.config.data_path / file]):
        return _part_of_run(run, str(data), client)
    return _new_points(run, Path(str(data)).expanduser(), has_partition, state_path)


def _examples(
    points: Floats,
    labels: Sequence[str],
    scored: NDArray[np.bool_],
    scored_words: str = "",
    names: Sequence[str] = (),
) -> Examples:
    """Points whose classes may be others than the run's."""
    none = np.zeros(len(points), dtype=np.bool_)
    data = ClientPoints(
        points,
        np.full(len(points), -1),
        none,
        ~none,
        (),
        curvature=-1.0,
        digest="",
        partition_digest="",
    )
    return Examples(data, labels, scored, scored_words, names)


def by_classifier(run: TrainedRun, examples: Examples) -> Prediction:
    """The prediction by the classifier of a one-shot run."""
    classifier = classifier_of(run)
    summands = server_class(run.config).summands
    kind = KINDS[classifier.kind]
    notes = {"model": f"global, {kind}, C = {classifier.c:g}, trained on the clients' {summands}"}
    names = list(filter(None, run.groups))
    unnamed = len(run.groups) - len(names)
    if unnamed:
        notes["groups"] = (
            f"{unnamed} of {len(run.groups)} have no name: neither the run's server (test-data) nor"
            " its clients had labelled points in them"
        )
    if set(names).isdisjoint(examples.labels):
        if examples.scored.any() and names:
            notes["classes"] = f"the data have none of the run's classes, {', '.join(names)}"
        examples.scored[:] = False
    points = examples.data.points
    predicted = classifier.predict(points)
    columns = np.searchsorted(classifier.groups, predicted)[:, None]
    probabilities = np.take_along_axis(classifier.probabilities(points), columns, axis=1)
    labels = np.array(run.class_names)
    by_class = prediction(
        run, examples, labels[predicted].tolist(), torch.from_numpy(probabilities[:, 0]), notes
    )
    return replace(by_class, unknown=classifier.unknown(points))


def _part_of_run(run: TrainedRun, data: str, client: int | None) -> Examples:
    """A client's part of the run's data set, or the server's test points."""
    dataset = PointDataset.of_run(run.config)
    path = run.config.test_path
    points: ClientPoints | None
    if client is not None and client in run.clients:
        points = dataset.client(client, run.clients[client].num_partitions)
        scored_words = "the training points"
        run.check_same(data, client, points.digest)
    elif path is None and Path(data).expanduser().exists():
        return _file_of_run(run, Path(data).expanduser(), dataset)
    else:
        points = dataset.test(path)
        scored_words = "the global test points"
    if points is None:
        raise PredictError(f"{data} has no test points", key="no-data")
    labels = [points.class_names[label] for label in points.labels]
    return _examples(points.points, labels, np.ones(len(labels), dtype=np.bool_), scored_words)


def _file_of_run(run: TrainedRun, path: Path, dataset: PointDataset) -> Examples:
    """All points of the run's own file; the server's test points are scored."""
    run.check_unchanged(str(path))
    examples = _read(path, dataset.spec)
    is_test = _test_points(examples, dataset.spec, dataset.pooled())
    return replace(examples, scored=is_test, scored_words="the global test points")


def _new_points(
    run: TrainedRun, path: Path, has_partition: bool, state_path: Path | None
) -> Examples:
    """Points of the user."""
    is_file = path.suffix.lower() in READERS and path.is_file()
    if not is_file and format_of(path) is None:
        allowed = "a file of points"
        if has_partition:
            allowed = f'"{run.config.dataset}", the run\'s own, or {allowed}'
        raise RequestError(
            f'DATA is "{path}"; allowed is {allowed}: {", ".join(READERS)}', key="data"
        )
    dataset = PointDataset.of_run(run.config)
    examples = _read(path, dataset.spec)
    if not examples.scored.any():
        return examples
    points = dataset.own(path)
    if run.trained_on(points.digest, state_path):
        is_test = _test_points(examples, dataset.spec, points)
        return replace(examples, scored=is_test, scored_words="the test points")
    return examples


def _read(path: Path, spec: PointSpec) -> Examples:
    """All points of a file; its test points are scored, or else all of known class."""
    raw = read_points(path, spec.curvature, spec.embedding_key, spec.label_key, bare=True)
    labels = [raw.class_names[label] if label >= 0 else "" for label in raw.labels]
    has_label = raw.labels >= 0
    if raw.test is not None and has_label.any():
        return _examples(raw.points, labels, raw.test & has_label, "the test points", raw.names)
    scored_words = "all points" if has_label.all() else "the points of known class"
    return _examples(raw.points, labels, has_label, scored_words, raw.names)


def _test_points(examples: Examples, spec: PointSpec, points: ClientPoints) -> NDArray[np.bool_]:
    """Whether each point of a file is a test point of `points`, which have the run's classes."""
    classes = spec.selected_classes or [name for name in set(examples.labels) if name]
    is_test = np.isin(examples.labels, classes)
    is_test[is_test] = points.test
    return is_test

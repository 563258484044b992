"""Points in the disc to predict: a file, or a run's own data set; and the classifier of a one-shot
run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from curvfed.deployments.inputs import PredictError, RequestError
from curvfed.deployments.predict.model import classifier_of
from curvfed.deployments.predict.prediction import (
    OF_KNOWN_CLASS,
    Examples,
    Prediction,
    is_own,
    scored_prediction,
    without_other_classes,
)
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.geometry.arrays import Booleans, Floats
from curvfed.strategies.config.one_shot import server_class
from curvfed.strategies.hull.classifier import cost_words
from curvfed.tasks.class_names import names_of
from curvfed.tasks.formats import POINT_ENDINGS, decide
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.points import ClientPoints, RawPoints, check_inside
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec
from curvfed.tasks.points.readers import DEFAULT_LABEL, read_points
from curvfed.tasks.registry import source_of
from curvfed.tasks.sources import PointSource
from curvfed.tasks.tables import TABLES

CLASSIFIERS = {
    "poincare": "SVM in the disc",
    "logistic": "logistic on tangent vectors",
    "plane": "multinomial on x and y",
    "lorentz": "multinomial on Lorentz coordinates",
    "depth": "median depth in the clients' hulls",
    "quadratic": "quadratic in tangent vectors, by the clients' moments",
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
    places = []
    source = source_of(run.config.dataset)
    if isinstance(source, PointSource):
        file = Path(source.folders[0], source.files[0])
        places = [file, run.config.data_path / file]
    if isinstance(data, RawPoints):
        check_inside("the data", data.points, run.config.points.curvature)
        return _examples(data.points, [], np.zeros(len(data.points), dtype=np.bool_))
    if has_partition and is_own(run, str(data), places):
        return _part_of_run(run, str(data), client)
    return _new_points(run, Path(str(data)).expanduser(), has_partition, state_path)


def _examples(
    points: Floats,
    labels: Sequence[str],
    scored: Booleans,
    scored_words: str = "",
    names: Sequence[str] = (),
) -> Examples:
    """Points with classes that may differ from the run's."""
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
    server = server_class(run.config)
    cost = cost_words(classifier.kind, classifier.c)
    training = f"{cost}, trained on the clients' {server.summands}" if cost else ""
    words = server.classifier_words(classifier) or f"{CLASSIFIERS[classifier.kind]}{training}"
    notes = {"model": f"global, {words}"}
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
    by_class = scored_prediction(
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
    labels = names_of(points.labels, points.class_names)
    scored = np.ones(len(labels), dtype=np.bool_)
    return _examples(points.points, labels, scored, scored_words, points.names)


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
    is_file = path.suffix.lower() in POINT_ENDINGS and path.is_file()
    if not is_file and not (path.exists() and decide(path).form.reader):
        allowed = "a file of points"
        if has_partition:
            allowed = f'"{run.config.dataset}", the run\'s own, or {allowed}'
        raise RequestError(
            f'DATA is "{path}"; allowed is {allowed}: {", ".join(POINT_ENDINGS)}', key="data"
        )
    dataset = PointDataset.of_run(run.config)
    examples = _read(path, dataset.spec)
    if not examples.scored.any():
        return examples
    # Without the name of any class the run cannot say which it lacks.
    names = {*run.facts.class_names, *run.groups} - {""}
    points = run.own_data(lambda split: dataset.split_by(split).own(path), state_path)
    if points is not None:
        is_test = _test_points(examples, dataset.spec, points)
        examples = replace(examples, scored=is_test, scored_words="the test points")
    return without_other_classes(examples, names, "points") if names else examples


def _read(path: Path, spec: PointSpec) -> Examples:
    """All points of a file; its test points are scored, or else all of known class."""
    raw = read_points(path, spec.curvature, spec.embedding_key, spec.label_key, bare=True)
    labels = names_of(raw.labels, raw.class_names)
    has_label = raw.labels >= 0
    if raw.test is not None and has_label.any():
        return _examples(raw.points, labels, raw.test & has_label, "the test points", raw.names)
    scored_words = f"all points{'' if has_label.all() else OF_KNOWN_CLASS}"
    examples = _examples(raw.points, labels, has_label, scored_words, raw.names)
    if not has_label.any():
        examples.notes["classes"] = _no_classes(path, spec)
    return examples


def _no_classes(path: Path, spec: PointSpec) -> str:
    """The reason for a prediction without an accuracy, in words."""
    ending = path.suffix.lower()
    if ending == ".npz":
        return f"none in {path.name}; an accuracy needs them in the array y_train or label"
    place = f'the column "{spec.label_key}"'
    if ending == ".h5ad":
        place = f'obs["{spec.label_key}"]'
    elif ending in TABLES and spec.label_key == DEFAULT_LABEL:
        place += ", or a third column of names or whole numbers"
    elif ending in TABLES:
        place += ", or a third column of names or whole numbers in a table without a header"
    return (
        f"none in {path.name}; an accuracy needs them in {place}; --label-key names another column,"
        " such as that of a node's policy"
    )


def _test_points(examples: Examples, spec: PointSpec, points: ClientPoints) -> Booleans:
    """Whether each point of a file is a test point of `points`, which have the run's classes."""
    classes = spec.selected_classes or [name for name in set(examples.labels) if name]
    is_test = np.isin(examples.labels, classes)
    is_test[is_test] = points.test
    return is_test

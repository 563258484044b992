"""Predictions on points in the Poincaré disc: a file, or a run's own data set."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.prediction import (
    Examples,
    Prediction,
    is_own,
    most_likely,
    prediction,
)
from curvfed.deployments.predict.trained_run import PredictError, TrainedRun
from curvfed.strategies.config.point_data import point_spec
from curvfed.strategies.hull.classifier import Classifier
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.points.client_points import ClientPoints
from curvfed.tasks.points.data import (
    PointSpec,
    load_client,
    load_own,
    load_pooled,
    load_test,
    load_test_file,
)
from curvfed.tasks.points.datasets import OLSSON
from curvfed.tasks.points.readers import READERS, RawPoints, check_inside, read_points

KINDS = {
    "poincare": "SVM in the disc",
    "logistic": "logistic on tangent vectors",
    "plane": "multinomial on x and y",
    "lorentz": "multinomial on Lorentz coordinates",
    "depth": "median depth in hulls",
    "quadratic": "quadratic in tangent vectors",
}


def predict_points(
    run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None, calibrated: bool
) -> Prediction:
    """Predict the classes of all points of `data`: of a file, of the run's own data set, or in
    memory.

    Raises
    ------
    PredictError, DataError, MessageError, StoreError
        If something is absent, or data and classifier do not fit together.
    """
    one_shot = run.config.row.is_one_shot
    if client is not None and one_shot:
        raise PredictError(
            f"--client is {client}; allowed is none: {run.config.method} leaves one classifier for"
            " all, and nothing at the clients"
        )
    # Without a partition every client brought data of its own.
    all_own = not any(record.partition_digest for record in run.clients.values())
    # A named data set must not be downloaded to be compared.
    file = Path(run.config.dataset).expanduser()
    if run.config.dataset.lower() == "olsson":
        file = Path(OLSSON.folders[0], OLSSON.files[0])
    if isinstance(data, RawPoints):
        check_inside("the data", data.points, run.config.points.curvature)
        examples = Examples(data.points, [], np.zeros(len(data.points), dtype=np.bool_))
    elif not all_own and is_own(run, str(data), [file, run.config.data_path / file]):
        examples = _own(run, str(data), client)
    else:
        kinds = [] if all_own else [f'"{run.config.dataset}", the run\'s own']
        examples = _given(run, Path(str(data)).expanduser(), kinds, state_path)
    if not one_shot:
        model, which = model_of(run, client, state_path, calibrated)
        logits = model(torch.from_numpy(examples.data)).detach().double()
        return prediction(
            run, examples, *most_likely(logits, run.facts.class_names), {"model": which}
        )
    classifier = _classifier(run)
    summed = "moments" if run.config.method == "discriminant" else "hulls"
    about = {
        "model": (
            f"global, {KINDS[classifier.kind]}, C = {classifier.c:g}, trained on the clients'"
            f" {summed}"
        )
    }
    if unnamed := sum(not name for name in run.groups):
        about["groups"] = (
            f"{unnamed} of {len(run.groups)} have no name: neither the run's server (test-data) nor"
            " its clients had labelled points in them"
        )
    named = set(filter(None, run.groups))
    if not named & set(examples.labels):
        if examples.scored.any() and named:
            about["classes"] = (
                f"the data have none of the run's classes, {', '.join(filter(None, run.groups))}"
            )
        examples.scored[:] = False
    predicted = classifier.predict(examples.data)
    places = np.searchsorted(classifier.groups, predicted)
    chances = np.take_along_axis(classifier.probabilities(examples.data), places[:, None], axis=1)[
        :, 0
    ]
    names = np.array([name or f"group {number + 1}" for number, name in enumerate(run.groups)])
    found = prediction(run, examples, names[predicted].tolist(), torch.from_numpy(chances), about)
    return replace(found, unknown=classifier.unknown(examples.data))


def _classifier(run: TrainedRun) -> Classifier:
    try:
        classifier = Classifier.from_arrays(run.arrays)
        if classifier.curvature != run.config.points.curvature or classifier.groups[-1] >= len(
            run.groups
        ):
            raise ValueError("it does not fit the configuration or the groups")
    except ValueError as error:
        raise PredictError(
            f"{run.path / 'model.safetensors'} is not the model of a run: {error}"
        ) from None
    return classifier


def _own(run: TrainedRun, data: str, client: int | None) -> Examples:
    """A client's part of the run's data set, else the global test points, as the run's server had
    them."""
    spec = point_spec(run.config, run.config.points)
    path = run.config.test_data
    held: ClientPoints | None
    if client is not None and client in run.clients:
        held = load_client(spec, client, run.part_of(client)["num-partitions"])
        which = "the training points"
        run.check_same(data, client, held.digest)
    elif path in ("auto", "none") and Path(data).expanduser().is_file():
        return _file(run, Path(data).expanduser(), spec)
    else:
        held = load_test(spec) if path in ("auto", "none") else load_test_file(Path(path), spec)
        which = "the global test points"
    if held is None:
        raise PredictError(f"{data} has no test points")
    labels = [held.class_names[label] for label in held.labels]
    return Examples(held.points, labels, np.ones(len(labels), dtype=np.bool_), which)


def _file(run: TrainedRun, path: Path, spec: PointSpec) -> Examples:
    """All points of the run's own file, scored on those that the server had for its test."""
    run.check_unchanged(str(path))
    examples = _read(path, spec)
    return replace(
        examples,
        scored=_held_out(examples, spec, load_pooled(spec)),
        which="the global test points",
    )


def _given(run: TrainedRun, path: Path, kinds: list[str], state_path: Path | None) -> Examples:
    """The user's own points; `kinds` says what else is allowed."""
    if path.suffix.lower() not in READERS or not path.is_file():
        allowed = ", or ".join([*kinds, "a file of points"])
        raise PredictError(f'DATA is "{path}"; allowed is {allowed}: {", ".join(READERS)}')
    spec = point_spec(run.config, run.config.points)
    examples = _read(path, spec)
    if not examples.scored.any():
        return examples
    own = load_own(path, spec)
    if run.trained_on(own.digest, state_path):
        return replace(examples, scored=_held_out(examples, spec, own), which="the test points")
    return examples


def _read(path: Path, spec: PointSpec) -> Examples:
    """All points of a file. Scored are its test part, or else all of known class."""
    raw = read_points(path, spec.curvature, spec.embedding_key, spec.label_key, bare=True)
    labels = [raw.class_names[label] if label >= 0 else "" for label in raw.labels]
    known = raw.labels >= 0
    if raw.test is not None and known.any():
        return Examples(raw.points, labels, raw.test & known, "the test points", raw.names)
    which = "all points" if known.all() else "the points of known class"
    return Examples(raw.points, labels, known, which, raw.names)


def _held_out(examples: Examples, spec: PointSpec, held: ClientPoints) -> NDArray[np.bool_]:
    """Which of a file's points are test points in `held`, which has the points of the classes that
    the run keeps."""
    kept = np.isin(examples.labels, spec.kept or [name for name in set(examples.labels) if name])
    kept[kept] = held.test
    return kept

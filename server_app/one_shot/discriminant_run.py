"""A run of discriminant analysis: one secure sum of the classes' moments, the classifier, its
scores; no rounds."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from curvfed.geometry.classifiers.logistic import Log0Logistic, QuadraticLogistic
from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.one_shot.hull_scores import ServerPoints, point_arrays
from curvfed.server_app.one_shot.one_shot_run import EVALUATION, PROTOCOL, OneShotRun
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.masked_phases import check_session, masked_phase
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.hull.classifier import Array, Classifier, Kind
from curvfed.strategies.hull.naming import elect_names
from curvfed.strategies.methods.discriminant import BOUND, length, scores
from curvfed.strategies.wire.messages import HULLS

log = logging.getLogger("curvfed")

FEATURES = 2


class DiscriminantRun(OneShotRun):
    """A run of `method=discriminant`."""

    def _sum(self) -> tuple[Arrays, dict[str, Any]]:
        """The moments of all clients together."""
        header = self.header(HULLS, PROTOCOL)
        clients = list(self.federation.nodes)
        check_session(header, clients, self.sums)
        phase, total = masked_phase(self._ask, header, clients, self.sums, *self._vector())
        self.metrics |= {
            "clients_summed": len(phase.replies),
            "points_summed": total.weight,
            "sum_error": total.error,
        }
        return {"moments": total.values}, {}

    def _vector(self) -> tuple[int, float]:
        """Length of a client's vector, and the bound on one point's addition to an entry."""
        return length(FEATURES, len(self.federation.facts.class_names)), BOUND

    def _finish(
        self, arrays: Arrays, metadata: Mapping[str, Any], server_points: ServerPoints
    ) -> None:
        """Compute the classifier, score it, write it."""
        started = time.monotonic()
        names = self.federation.facts.class_names
        kind = self.config.table("discriminant").kind
        try:
            classifier = discriminant(arrays["moments"], kind, self.config.points.curvature)
        except ValueError as error:
            raise RoundError(str(error), key="unlearnable") from None
        self.state.add(seconds_aggregation=time.monotonic() - started)
        model = classifier.arrays()
        votes = self._score(model)
        disputed = sum(
            elected_class not in (-1, group)
            for group, elected_class in enumerate(elect_names(votes))
        )
        self.metrics |= {"classifier": kind, "classes_disputed": disputed}
        predicted = np.empty(0, np.int64)
        if server_points.test is not None and len(server_points.test.points):
            # The numbers of test classes are those of the clients' classes, or in another order.
            test_names = server_points.test.class_names
            test_numbers = np.array(
                [test_names.index(name) if name in test_names else -1 for name in names]
            )
            predicted = test_numbers[classifier.predict(server_points.test.points)]
            self.state.scored["last"] = [float((predicted == server_points.test.labels).mean())]
            self.metrics["confidence"] = float(
                classifier.probabilities(server_points.test.points).max(axis=1).mean()
            )
        self.is_scored = True
        self.warn()
        log.info("%s of %d classes, round %d", kind, len(classifier.groups), EVALUATION)
        self._write_model(model, names)
        content = {"names": np.array(names), "votes": votes, "voted_names": np.array(names)}
        content |= {"curvature": np.array(self.config.points.curvature)} | point_arrays(
            server_points, predicted
        )
        write_npz(self.directory.path / "hulls.npz", content)


def discriminant(total: Array, kind: str, curvature: float) -> Classifier:
    """The classifier from the moments of the classes,
    `curvfed.strategies.methods.discriminant.class_moments`.

    Parameters
    ----------
    total : array
        The sum of all clients' moments of log0 at curvature -1, in two dimensions.
    kind : {"lda", "qda"}
    curvature : float < 0
        Of the disc.

    Raises
    ------
    ValueError
        As `scores`.
    """
    classes, q, w, b = scores(total, 2, kind)
    root = np.sqrt(-curvature)  # tangent vectors of the disc are shorter by it
    normals = w * root
    if kind == "qda":
        normals = np.concatenate(
            [normals, np.stack([q[:, 0, 0], 2 * q[:, 0, 1], q[:, 1, 1]], axis=1) * root**2], axis=1
        )
    name: Kind = "quadratic" if kind == "qda" else "logistic"
    model = QuadraticLogistic(curvature, 1.0) if kind == "qda" else Log0Logistic(curvature, 1.0)
    model.classes_ = classes
    model.normals_ = normals
    model.intercepts_ = b
    if len(classes) == 2:
        model.normals_ = normals[1:] - normals[:1]
        model.intercepts_ = b[1:] - b[:1]
    return Classifier(name, curvature, model)

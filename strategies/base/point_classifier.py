"""The halves of one-shot methods whose model is a classifier of points in the disc."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.one_shot import Figures, OneShotClient, OneShotServer, ServerPoints
from curvfed.strategies.base.statistics import Arrays, in_large_classes
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.hull.naming import accuracy, client_votes, name_groups
from curvfed.strategies.wire.checks import MessageError, check_votes
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints

log = logging.getLogger("curvfed")

VOTES = "votes"
FALLEN = "fallen"
"""Names of the arrays of an evaluation; the second is [1] if a model that the client trains alone
is far better."""

SMALL_CLASSES_STAY = (
    "a class with fewer training points at a node than [leaves] hull-min-class-size in its policy,"
    " 5 without a line, or than hull.min-class-size, stays at that node; merge such classes, or"
    " leave them out (points.classes)"
)
"""Why classes can be missing from a sum."""

MIN_TEST_POINTS = 10
"""With fewer test points a client does not compare the classifier with a model of its own."""

MAX_SHORTFALL = 0.2
"""A client warns if the classifier's accuracy lies further below that of its own model."""

MAX_DRAWN_POINTS = 4000
"""Maximum number of points of a kind in the report's pictures."""


class ClassifierClient(OneShotClient):
    """The client's half: it scores the classifier and votes on the names of its groups."""

    @property
    def points(self) -> ClientPoints:
        """The client's data.

        Raises
        ------
        DataError
            If they are no points.
        """
        if not isinstance(self.site.data, ClientPoints):
            raise DataError("the data are not points in a disc", key="not-points")
        return self.site.data

    def large_classes(self, labels: NDArray[np.int64], minimum: int) -> NDArray[np.bool_]:
        """Whether the class of each training point has enough of them to leave the node, (n,)."""
        return in_large_classes(labels, max(minimum, self.site.min_class_size))

    def evaluate(self, arrays: Arrays) -> tuple[Figures, Arrays]:
        """The accuracy on the test points, and the votes of the training points on the classes of
        groups."""
        data = self.points
        try:
            classifier = Classifier.from_arrays(arrays)
        except (KeyError, ValueError) as error:
            raise MessageError(
                f"the classifier cannot be read ({type(error).__name__})",
                key="unreadable-classifier",
            ) from None
        num_groups = int(classifier.groups[-1]) + 1
        classes = self.setting.class_names
        if not len(data.train_labels):
            return {}, {VOTES: np.zeros((num_groups, len(classes))), FALLEN: np.zeros(1)}
        predicted = classifier.predict(data.train_points)
        names = name_groups(predicted, data.train_labels, num_groups, len(data.class_names))
        votes = client_votes(names, predicted, data.class_names, classes)
        score = accuracy(classifier.predict(data.test_points), data.test_labels, names)
        if score is None:
            return {}, {VOTES: votes, FALLEN: np.zeros(1)}
        is_fallen = float(self._falls_short(score))
        return {"score": score}, {VOTES: votes, FALLEN: np.array([is_fallen])}

    def _falls_short(self, score: float) -> bool:
        """Whether the run's classifier is far less accurate than a model of this client's own
        training points."""
        data = self.points
        if len(data.test_labels) < MIN_TEST_POINTS or len(np.unique(data.train_labels)) < 2:
            return False
        local = Classifier.train(
            data.train_points, data.train_labels, data.curvature, c=1.0, hard=False, seed=0
        )
        local_score = float((local.predict(data.test_points) == data.test_labels).mean())
        if local_score - score <= MAX_SHORTFALL:
            return False
        log.warning(
            "partition %d: the run's classifier is right on %.0f%% of the test points here, a"
            " model of this client's own points on %.0f%%; check the labels and the embedding of"
            " this client, or keep a model of its own",
            self.site.partition,
            100 * score,
            100 * local_score,
        )
        return True


class ClassifierServer(OneShotServer):
    """The server's half, as far as the clients' votes go."""

    def template(self, arrays: Arrays) -> Arrays:
        """The votes of a client on each group, and whether the classifier falls short there."""
        num_groups = int(arrays["groups"][-1]) + 1
        return {
            VOTES: np.zeros((num_groups, len(self.setting.class_names))),
            FALLEN: np.zeros(1),
        }

    def check_evaluation(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse more than one vote per group or class."""
        check_votes(arrays[VOTES], arrays[FALLEN])

    def warnings(self, metrics: Mapping[str, Any]) -> dict[str, str]:
        """Clients that a model of their own serves better."""
        fallen = metrics.get("clients_fallen", 0)
        if not fallen:
            return {}
        return {
            "fallen": (
                f"at {fallen} clients a model of the client's own points is far more accurate than"
                " the run's classifier; their logs say how much; let these sites check their"
                " labels and their embedding"
            )
        }


def confidence(classifier: Classifier, points: NDArray[np.float64]) -> dict[str, float]:
    """The mean probability of the predicted class; empty without points."""
    if not len(points):
        return {}
    return {"confidence": float(classifier.probabilities(points).max(axis=1).mean())}


def point_arrays(points: ServerPoints, predicted: NDArray[np.int64]) -> Arrays:
    """The server's points for the report, with the predicted class of each test point."""
    arrays: Arrays = {}
    if points.test is not None:
        arrays |= {
            "class_names": np.array(points.test.class_names),
            "test_points": points.test.points[:MAX_DRAWN_POINTS],
            "test_labels": points.test.labels[:MAX_DRAWN_POINTS],
            "test_predicted": predicted[:MAX_DRAWN_POINTS],
        }
    if points.pooled is not None:
        shown = np.random.default_rng(0).permutation(len(points.pooled.train_points))
        shown = shown[:MAX_DRAWN_POINTS]
        arrays |= {
            "class_names": np.array((points.test or points.pooled).class_names),
            "sample_points": points.pooled.train_points[shown],
            "sample_labels": points.pooled.train_labels[shown],
        }
    return arrays

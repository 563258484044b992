"""The halves of one-shot methods that learn a classifier of points in the disc."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from curvfed.geometry import poincare
from curvfed.geometry.arrays import Array, Booleans, Floats, Integers
from curvfed.strategies.base.one_shot import (
    Evaluation,
    Figures,
    Model,
    OneShotClient,
    OneShotServer,
    ServerPoints,
)
from curvfed.strategies.base.statistics import Arrays, Leaving
from curvfed.strategies.hull.classifier import (
    NONE,
    Classifier,
    accuracy,
    client_votes,
    elect_names,
    name_groups,
)
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError, check_votes
from curvfed.tasks.amounts import amount, have
from curvfed.tasks.errors import DataError
from curvfed.tasks.points import ClientPoints

VOTES = "votes"
FALLEN = "fallen"
"""Names of the arrays of an evaluation; the second is [1] if a model that the client trains alone
is far better."""

SMALL_CLASSES_STAY = (
    "a class with fewer training points at a node than [leaves] hull-min-class-size in its policy,"
    " 5 without a line, or than hull.min-class-size, stays at that node, and a class that fewer"
    " members of a sum have than secure.min-holders, 3 without a value, at these; merge such"
    " classes, or leave them out (points.classes)"
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
            If they are not points.
        """
        if not isinstance(self.site.data, ClientPoints):
            raise DataError("the data are not points in a disc", key="not-points")
        return self.site.data

    @property
    def minimum(self) -> int:
        """Minimum number of training points of a class that leaves."""
        return self.site.leaving.minimum

    @classmethod
    def sums_by_name(cls, keys: Any) -> bool:
        """Classes have names."""
        return True

    @property
    def max_examples(self) -> float:
        """Maximum number of training points that leave."""
        return math.inf

    def held(self) -> set[str]:
        """The names of the classes of enough training points."""
        data = self.points
        leaves = Leaving(self.minimum, max_examples=self.max_examples).examples(data.train_labels)
        return {data.class_names[label] for label in np.unique(data.train_labels[leaves])}

    def leave(self) -> Booleans:
        """Whether values computed from each training point may leave the node, (n,)."""
        data = self.points
        few = self.site.leaving.few
        names = dict(zip(self.setting.class_names, few.tolist(), strict=False))
        own_few = np.array([names.get(name, False) for name in data.class_names], np.bool_)
        return Leaving(self.minimum, own_few, self.max_examples).examples(data.train_labels)

    def classes_lost(self) -> int:
        """As `Leaving.classes_lost`."""
        leaving = Leaving(self.minimum, max_examples=self.max_examples)
        return leaving.classes_lost(self.points.train_labels)

    def evaluate(self, arrays: Arrays) -> tuple[Figures, Arrays]:
        """The accuracy on the test points, and the votes of the training points on the classes of
        groups. Points of classes that stay have no vote."""
        data = self.points
        try:
            classifier = Classifier.from_arrays(arrays)
        except (KeyError, ValueError) as error:
            raise MessageError(
                f"the classifier cannot be read ({type(error).__name__})",
                key="unreadable-classifier",
            ) from None
        # With another disc, or such a group, an error would say that some point here lies there.
        if classifier.curvature != data.curvature or classifier.groups[0] < 0:
            raise MessageError(
                f"a classifier of groups from {classifier.groups[0]} at curvature"
                f" {classifier.curvature:g}; allowed are groups from 0 at curvature"
                f" {data.curvature:g}",
                key="unreadable-classifier",
            )
        num_groups = int(classifier.groups[-1]) + 1
        classes = self.setting.class_names
        if not len(data.train_labels):
            return {}, {VOTES: np.zeros((num_groups, len(classes))), FALLEN: np.zeros(1)}
        predicted = classifier.predict(data.train_points)
        names = name_groups(predicted, data.train_labels, num_groups, len(data.class_names))
        leaves = self.leave()
        voting = predicted[leaves]
        voted = name_groups(voting, data.train_labels[leaves], num_groups, len(data.class_names))
        votes = client_votes(voted, voting, data.class_names, classes)
        score = accuracy(classifier.predict(data.test_points), data.test_labels, names)
        is_fallen = score is not None and self._falls_short(score)
        arrays = {VOTES: votes, FALLEN: np.array([float(is_fallen)])}
        return {} if score is None else {"score": score}, arrays

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


class ClassSumsClient(ClassifierClient):
    """The client's half of a method that sums over its points by the federation's classes."""

    @property
    def max_examples(self) -> float:
        """As the other members of the sum allow."""
        return self.site.leaving.max_examples

    def federation_labels(self) -> Integers:
        """The number (n,) of each training point's class among the federation's.

        Raises
        ------
        DataError
            If a class here lacks one.
        """
        data = self.points
        classes = self.setting.class_names
        present = {data.class_names[label] for label in np.unique(data.train_labels)}
        if unknown := present - set(classes):
            raise DataError(
                f"{amount(len(unknown), 'class')} here {have(len(unknown))} no name that the"
                " federation knows",
                key="unknown-class",
            )
        positions = [classes.index(name) if name in classes else 0 for name in data.class_names]
        return np.array(positions, np.int64)[data.train_labels]

    def tangents(self) -> Floats:
        """log0 of the training points at curvature -1, (n, 2)."""
        data = self.points
        unit = torch.from_numpy(data.train_points * np.sqrt(-data.curvature))
        return poincare.log0(unit, -1.0).numpy()


class ClassifierServer(OneShotServer):
    """The server's half, as far as the clients' votes go."""

    def template(self, arrays: Arrays) -> Arrays:
        """The votes of a client on each group, and whether the classifier falls short there."""
        num_groups = int(arrays["groups"][-1]) + 1
        return {
            VOTES: np.zeros((num_groups, len(self.setting.class_names))),
            FALLEN: np.zeros(1),
        }

    def check_evaluation(self, arrays: Mapping[str, Array]) -> None:
        """Refuse more than one vote per group or class."""
        check_votes(arrays[VOTES], arrays[FALLEN])

    def warnings(self, metrics: Mapping[str, Any]) -> dict[str, str]:
        """Clients that a model of their own serves better."""
        fallen = metrics.get("clients_fallen", 0)
        if not fallen:
            return {}
        return {
            "fallen": (
                f"at {amount(fallen, 'client')} a model of the client's own points is far more"
                " accurate than the run's classifier; their logs say how much; let these sites"
                " check their labels and their embedding"
            )
        }


class NamedClassesServer(ClassifierServer):
    """The server's half of a method with the federation's classes as groups; the details of its
    model are the classifier."""

    def evaluate(
        self, model: Model, sums: Arrays, points: ServerPoints, summed: Sequence[int]
    ) -> Evaluation:
        """The accuracy on the server's test points, and the number of classes that the clients
        name otherwise."""
        classifier: Classifier = model.details
        names = self.setting.class_names
        elected = enumerate(elect_names(sums[VOTES]))
        disputed = sum(label not in (-1, group) for group, label in elected)
        figures: dict[str, Any] = {}
        if not self.is_private:  # otherwise no client is asked
            figures = {"clients_fallen": int(sums[FALLEN][0]), "classes_disputed": disputed}
        score = None
        predicted = np.empty(0, np.int64)
        if points.test is not None:
            # The numbers of test classes are those of the clients' classes, or in another order.
            test = points.test
            test_names = test.class_names
            numbers = np.array(
                [test_names.index(name) if name in test_names else NONE for name in names]
            )
            groups = classifier.predict(test.points)
            predicted = numbers[groups]
            score = accuracy(groups, test.labels, numbers)
            figures |= confidence(classifier, test.points)
        arrays = {
            "names": np.array(names),
            "votes": sums[VOTES],
            "voted_names": np.array(names),
            "curvature": np.array(self.setting.points.curvature),
        }
        return Evaluation(figures, score, names, arrays | point_arrays(points, predicted))


def confidence(classifier: Classifier, points: Floats) -> dict[str, float]:
    """The mean probability of the predicted class; empty without points."""
    if not len(points):
        return {}
    return {"confidence": float(classifier.probabilities(points).max(axis=1).mean())}


def point_arrays(points: ServerPoints, predicted: Integers) -> Arrays:
    """The server's points for the report, with the predicted class of each test point."""
    arrays: Arrays = {}
    if points.test is not None:
        test = points.test
        arrays["class_names"] = np.array(test.class_names)
        arrays["test_points"] = test.points[:MAX_DRAWN_POINTS]
        arrays["test_labels"] = test.labels[:MAX_DRAWN_POINTS]
        arrays["test_predicted"] = predicted[:MAX_DRAWN_POINTS]
    if points.pooled is not None:
        shown = np.random.default_rng(0).permutation(len(points.pooled.train_points))
        shown = shown[:MAX_DRAWN_POINTS]
        arrays |= {
            "class_names": np.array((points.test or points.pooled).class_names),
            "sample_points": points.pooled.train_points[shown],
            "sample_labels": points.pooled.train_labels[shown],
        }
    return arrays

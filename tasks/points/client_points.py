"""The data of one client: its points in the disc, their classes, their split, and a hash of
everything."""

import hashlib
import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ClientPoints:
    """The data of one client, of a whole data set, or the global test set.

    Attributes
    ----------
    points : (n, 2), float64
        Inside the disc of `curvature`; n may be 0.
    labels : (n,), int64
        Indices into `class_names`.
    train, test : (n,), bool
        Every point is one or the other.
    class_names : tuple of str
        The class names of this client's data set; empty if it names none.
    curvature : float
        Negative; the disc's radius is 1/√|curvature|.
    digest : str
        SHA-256 of all of the above.
    partition_digest : str
        SHA-256 of the partition's membership; "" for a node's own data, a whole data set or its
        test set.
    history : str
        What was left out of the data set, in words.
    """

    points: Floats
    labels: Integers
    train: Booleans
    test: Booleans
    class_names: tuple[str, ...]
    curvature: float
    digest: str
    partition_digest: str
    history: str = field(default="", kw_only=True)

    metric = "accuracy"
    space = ""
    task = "points"
    shape = ""
    num_features = 2

    @property
    def val(self) -> Booleans:
        """None (n,): points have no part for validation."""
        return np.zeros(len(self.labels), dtype=np.bool_)

    def bytes_on(self, device: object) -> int:
        """Bytes that a task needs on a device: next to none."""
        return 0

    @property
    def train_points(self) -> Floats:
        """(m, 2)."""
        return self.points[self.train]

    @property
    def train_labels(self) -> Integers:
        """(m,)."""
        return self.labels[self.train]

    @property
    def test_points(self) -> Floats:
        """(t, 2)."""
        return self.points[self.test]

    @property
    def test_labels(self) -> Integers:
        """(t,)."""
        return self.labels[self.test]


def client_points(
    points: Floats,
    labels: Integers,
    test: Booleans,
    class_names: tuple[str, ...],
    curvature: float,
    partition_digest: str = "",
) -> ClientPoints:
    """Copy and hash a client's data. Points outside `test` are training points."""
    points = np.array(points, dtype=np.float64, order="C")
    labels = np.array(labels, dtype=np.int64)
    test = np.array(test, dtype=np.bool_)
    hasher = hashlib.sha256(json.dumps([class_names, float(curvature), len(points)]).encode())
    for array in (points.astype("<f8"), labels.astype("<i8"), test):
        hasher.update(array.data)
    return ClientPoints(
        points=points,
        labels=labels,
        train=~test,
        test=test,
        class_names=class_names,
        curvature=float(curvature),
        digest=hasher.hexdigest(),
        partition_digest=partition_digest,
    )


@dataclass(frozen=True)
class PointStatistics:
    """Figures about one client's points. A real node does not send them unless its configuration
    allows it.

    Attributes
    ----------
    num_train, num_test : int
    class_counts : list of int
        Of the training points, in the order of the client's own class names.
    majority_accuracy : float or None
        Test accuracy of the most frequent training class; None without training or test points.
    """

    num_train: int
    num_test: int
    class_counts: list[int]
    majority_accuracy: float | None


def statistics(data: ClientPoints) -> PointStatistics:
    """Compute the figures of one client's points."""
    counts = np.bincount(data.train_labels, minlength=len(data.class_names))
    majority = None
    if data.train.any() and data.test.any():
        # Of equally frequent classes argmax takes the first, so that the figure is the same
        # everywhere.
        majority = float((data.test_labels == counts.argmax()).mean())
    return PointStatistics(
        num_train=int(data.train.sum()),
        num_test=int(data.test.sum()),
        class_counts=counts.tolist(),
        majority_accuracy=majority,
    )

"""The data of one client: its points in the disc, their classes, their split, and a hash of
everything."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

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

    def describe(self) -> str:
        """The amount of data, in words."""
        return f"{len(self.labels)} points in the disc"

    def statistics(self, triangles: bool = True) -> dict[str, Any]:
        """Figures about the points, which a real node keeps to itself by default.

        Returns
        -------
        dict
            "num_train", "num_test"; "class_counts" of the training points, in the order of
            `class_names`; "majority_accuracy", the test accuracy of the most frequent training
            class, or None without training or test points.
        """
        counts = np.bincount(self.train_labels, minlength=len(self.class_names))
        majority = None
        if self.train.any() and self.test.any():
            # Of equally frequent classes argmax takes the first: equal figures everywhere.
            majority = float((self.test_labels == counts.argmax()).mean())
        return {
            "num_train": int(self.train.sum()),
            "num_test": int(self.test.sum()),
            "class_counts": counts.tolist(),
            "majority_accuracy": majority,
        }

    def check_test(self, shape: str, class_names: object) -> None:
        """Accept test points of any classes; a class that no client has is scored as wrong."""

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

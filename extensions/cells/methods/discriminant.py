"""Linear and quadratic discriminant analysis (Fisher, 1936) from one secure sum of class moments.

Each client adds, for each class, the number of its points, their sum and the sum of their products,
in the tangent space at the origin (log0): 6 numbers a class in two dimensions. The total gives the
classifier of all points in one place, and no point leaves a client. It is the ordinary federated
baseline by which hulls are judged.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from curvfed.geometry.arrays import Booleans, Floats, Integers
from curvfed.geometry.linear_classifiers import Log0Logistic, QuadraticLogistic
from curvfed.strategies.base.calibration import on_grid
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import POINTS, OneShot
from curvfed.strategies.base.moments import (
    at_least,
    class_moments,
    features_of,
    gaussians,
    moment_variances,
    moments_length,
    plausible_moments,
)
from curvfed.strategies.base.one_shot import Half, Model, Vectors
from curvfed.strategies.base.point_classifier import (
    SMALL_CLASSES_STAY,
    ClassSumsClient,
    NamedClassesServer,
)
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.tasks.amounts import amount, have


class Keys(Table):
    """Keys of discriminant analysis."""

    kind: Literal["lda", "qda"] = "qda"
    """lda: one covariance for all classes; qda: one for each class"""
    reach: Rate | None = Field(default=None, gt=0, le=16)
    """maximum length of a point's tangent vector in the sums, at curvature -1; longer ones are
    shortened to it; auto: 16, of points within 2e-7 of the rim, or with dp.unit 4, within .04, for
    the noise grows with its square"""


REACH = 16.0
PRIVATE_REACH = 4.0
"""The defaults of `discriminant.reach`."""


FEATURES = 2

ROUNDING = 1e-12
"""Bound on the rounding error of a variance, over the mean square of the points."""


def shortened(tangents: Floats, reach: float) -> Floats:
    """Tangent vectors (n, l), at curvature -1, of a length of at most `reach`."""
    norms = np.linalg.norm(tangents, axis=1, keepdims=True)
    shrinkage = reach / np.maximum(norms, min(reach, 1))
    return tangents * np.minimum(1, shrinkage)


def scores(
    rows: Floats, kind: str, error: float = 0.0
) -> tuple[Integers, Floats, Floats, Floats, Booleans]:
    """The classes' log probabilities as functions z·q·zᵀ + z·w + b of tangent vectors z, up to a
    constant.

    Priors are the classes' shares, and covariances those of largest likelihood, divided by the
    number of points, as scikit-learn has them at version 1.9: so the classifier is its classifier
    of all points. With qda, a class of too few points for a covariance of its own, or of points on
    a line, has the pooled one.

    Parameters
    ----------
    rows : array (C, 1 + l + l(l + 1)/2)
        `class_moments` of all clients together.
    kind : {"lda", "qda"}
    error : float
        Bound on the absolute error of the entries.

    Returns
    -------
    classes : int array (J,)
        The classes with points.
    q : array (J, l, l)
    w : array (J, l)
    b : array (J,)
    is_pooled : bool array (J,)
        Whether a class has the pooled covariance.

    Raises
    ------
    ValueError
        If there are fewer than two classes.
    """
    features = features_of(rows)
    classes = np.flatnonzero(np.rint(rows[:, 0]))
    if len(classes) < 2:
        raise ValueError(
            f"points of {amount(len(classes), 'class')}; a classifier needs at least two:"
            f" {SMALL_CLASSES_STAY}"
        )
    counts, means, scatter = gaussians(rows[classes])
    squares: Floats = np.trace(scatter, axis1=1, axis2=2) / counts + (means**2).sum(axis=1)
    squares = np.where(squares > 0, squares, 1)
    # Smaller variances may be numerical errors.
    floors = ROUNDING * squares + features * error * (1 + squares**0.5) ** 2 / counts
    pooled: Floats = scatter.sum(axis=0) / counts.sum()
    if np.linalg.eigvalsh(pooled)[0] <= floors.max():
        pooled = at_least(pooled, floors.max())
    covariances: Any = scatter / counts[:, None, None]
    is_flat = np.linalg.eigvalsh(covariances)[:, 0] <= floors
    is_pooled = is_flat | (counts <= features) | (kind == "lda")
    covariances[is_pooled] = pooled
    inverse = np.linalg.inv(covariances)
    w = np.einsum("jab,jb->ja", inverse, means)
    b = np.log(counts / counts.sum()) - 0.5 * np.einsum("ja,ja->j", w, means)
    b -= 0.5 * np.linalg.slogdet(covariances)[1]
    return classes, -0.5 * inverse * (kind == "qda"), w, b, is_pooled


def discriminant(
    rows: Floats, kind: str, curvature: float, error: float = 0.0
) -> tuple[Classifier, int]:
    """The classifier from the `class_moments` of all clients together, in two dimensions, and the
    number of classes with the pooled covariance.

    Parameters
    ----------
    rows : array (C, 6)
    kind : {"lda", "qda"}
    curvature : float < 0
        The curvature of the disc.
    error : float
        Bound on the absolute error of the entries.

    Raises
    ------
    ValueError
        As `scores`.
    """
    classes, q, w, b, is_pooled = scores(rows, kind, error)
    root = np.sqrt(-curvature)  # tangent vectors of the disc are shorter by it
    normals = w * root
    name: Kind = "logistic"
    model = Log0Logistic(curvature, 1.0)
    if kind == "qda":
        squares = np.stack([q[:, 0, 0], 2 * q[:, 0, 1], q[:, 1, 1]], axis=1)
        normals = np.concatenate([normals, squares * root**2], axis=1)
        name = "quadratic"
        model = QuadraticLogistic(curvature, 1.0)
    is_pair = len(classes) == 2
    model.classes_ = classes
    model.normals_ = normals[1:] - normals[:1] if is_pair else normals
    model.intercepts_ = b[1:] - b[:1] if is_pair else b
    return Classifier(name, curvature, model), int(is_pooled.sum())


def pool_products(moments: Floats) -> Floats:
    """The moments with the products of all classes in the row of the first, and none elsewhere."""
    pooled = moments.copy()
    split = 1 + features_of(moments)
    pooled[:, split:] = 0
    pooled[0, split:] = moments[:, split:].sum(axis=0)
    return pooled


class MomentsOfClasses(Half):
    """The facts about a client's vector that both halves know."""

    @property
    def reach(self) -> float:
        """See `Keys`."""
        return self.keys.reach or (PRIVATE_REACH if self.is_private else REACH)

    def vectors(self, clients: int) -> Vectors:
        """Vectors of real numbers."""
        classes = len(self.setting.class_names)
        bound = max(1.0, self.reach**2)
        if not self.is_private:
            return Vectors(classes * moments_length(FEATURES), bound)
        variances = moment_variances(FEATURES, classes, self.reach).ravel()
        return Vectors(variances.size, bound, variances=variances)


class DiscriminantClient(MomentsOfClasses, ClassSumsClient):
    """The client's half: moments of log0 of the training points of each class."""

    hides_records = True

    def contribution(self, clients: int, order_numbers: Mapping[int, bytes]) -> Statistics:
        """The moments, and the number of points."""
        labels = self.federation_labels()
        tangents = self.tangents()
        # The sums over a class that only one client has are that client's, unless noise hides them;
        # a point that adds or removes a whole class would need more of it.
        leaves = self.leave() | self.is_private
        labels = labels[leaves]
        tangents = tangents[leaves]
        classes = len(self.setting.class_names)
        if not self.is_private:
            rows = class_moments(shortened(tangents, self.reach), labels, classes)
            return Statistics({"sums": rows.ravel()}, len(labels))
        rows = class_moments(on_grid(tangents, self.reach), labels, classes)
        if self.keys.kind == "lda":
            rows = pool_products(rows)
        return Statistics({"sums": rows.ravel()})


class DiscriminantServer(MomentsOfClasses, NamedClassesServer):
    """The server's half: the classifier of all points, from the sums of their moments."""

    summands = "moments"
    file_name = "classifier.npz"

    @classmethod
    def classifier_words(cls, classifier: Classifier) -> str:
        """The analysis by its name: its classifier is made of moments, and not trained."""
        form = "quadratic" if classifier.kind == "quadratic" else "linear"
        return f"{form} discriminant analysis of tangent vectors, by the clients' moments"

    def learn(self, total: Statistics) -> Model:
        """The classifier."""
        kind = self.keys.kind
        curvature = self.setting.points.curvature
        rows = total.arrays["sums"].reshape(len(self.setting.class_names), -1)
        if self.is_private:
            rows = plausible_moments(rows, total.noise, self.reach, kind == "lda")
        classifier, num_pooled = discriminant(rows, kind, curvature, total.error)
        figures: dict[str, Any] = {"classifier": kind}
        if kind == "qda" and num_pooled:
            figures["classes_pooled"] = num_pooled
        return Model(classifier.arrays(), figures, classifier)

    def warnings(self, metrics: Mapping[str, Any]) -> dict[str, str]:
        """Those of all classifiers, and classes without a covariance of their own."""
        texts = super().warnings(metrics)
        if num_pooled := metrics.get("classes_pooled"):
            texts["pooled"] = (
                f"{amount(num_pooled, 'class')} {have(num_pooled)} fewer than {FEATURES + 1}"
                " points in all, or points that lie on a line; a covariance of one class needs"
                " more, so that of all classes together takes its place, as with"
                " discriminant.kind = lda"
            )
        return texts


METHODS = {
    "discriminant": OneShot(
        "linear or quadratic discriminant analysis from one secure sum of each class's moments",
        space="flat",
        client="curvfed.extensions.cells.methods.discriminant:DiscriminantClient",
        server="curvfed.extensions.cells.methods.discriminant:DiscriminantServer",
        tasks=POINTS,
        keys={"discriminant": Keys},
        phase="moments",
    ),
}

"""Discriminant analysis as a classifier of points in the disc, in the form in which classifiers are stored."""

import numpy as np

from curvfed.geometry.classifiers.logistic import Log0Logistic, QuadraticLogistic
from curvfed.strategies.hull.classifier import Array, Classifier, Kind
from curvfed.strategies.methods.discriminant import scores


def discriminant(total: Array, kind: str, curvature: float) -> Classifier:
    """The classifier from the moments of the classes, `curvfed.strategies.methods.discriminant.class_moments`.

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
    model.classes_, model.normals_, model.intercepts_ = classes, normals, b
    if len(classes) == 2:
        model.normals_, model.intercepts_ = normals[1:] - normals[:1], b[1:] - b[:1]
    return Classifier(name, curvature, model)

"""`PoincareSVM` in the hands of scikit-learn's tools."""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from curvfed.geometry import EuclideanSVM, PoincareSVM


def clusters():
    generator = np.random.default_rng(0)
    centres = np.array([[0.5, 0.2], [-0.5, 0.3], [0.0, -0.6]])
    labels = np.repeat(["a", "b", "c"], 12)
    return np.repeat(centres, 12, axis=0) + 0.08 * generator.standard_normal((36, 2)), labels


@pytest.mark.parametrize(
    "model", [PoincareSVM(-1.0, 2.0), PoincareSVM(-1.3, 1, [[0.1, 0.2]]), EuclideanSVM(math.inf)]
)
def test_clone_has_the_same_parameters_and_is_not_fitted(model):
    points, labels = clusters()
    keep = labels != "c" if getattr(model, "reference", None) is not None else labels != "d"
    model.fit(points[keep], labels[keep])
    copy = clone(model)
    assert copy.get_params().keys() == model.get_params().keys()
    for name, value in model.get_params().items():
        np.testing.assert_array_equal(copy.get_params()[name], value)
    with pytest.raises(NotFittedError, match="fit"):
        copy.predict(points)
    np.testing.assert_array_equal(
        copy.fit(points[keep], labels[keep]).predict(points), model.predict(points)
    )


def test_tools():
    points, labels = clusters()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert is_classifier(PoincareSVM(-1.0, 1.0))
        assert cross_val_score(PoincareSVM(-1.0, 1.0), points, labels, cv=3).tolist() == [1, 1, 1]
        search = GridSearchCV(
            make_pipeline(PoincareSVM(-1.0, 1.0)), {"poincaresvm__C": [0.1, 10.0]}, cv=3
        )
        assert search.fit(points, labels).score(points, labels) == 1


def test_parameters_are_set_by_name_and_checked():
    model = PoincareSVM(-1.0, 1.0)
    assert model.set_params(C=3.0) is model
    assert model.get_params() == {"curvature": -1.0, "C": 3.0, "reference": None}
    with pytest.raises(ValueError, match=r"'c'.*curvature, C, reference"):
        model.set_params(c=1.0)
    with pytest.raises(ValueError, match="-1"):
        model.set_params(C=-1.0)

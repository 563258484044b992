"""What scikit-learn asks of a classifier that goes through its tools, without importing
scikit-learn."""

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike


class Estimator:
    """A classifier that `clone`, `cross_val_score` and their like accept; its parameters are those
    of `__init__`."""

    _estimator_type = "classifier"  # read by scikit-learn before 1.6

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` has no meaning, because none is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Raises
        ------
        ValueError
            If a name is no parameter, or a value is out of its range.
        """
        parameters = self.get_params()
        for name in params.keys() - parameters:
            raise ValueError(
                f"{type(self).__name__}: no parameter {name!r}; allowed are {', '.join(parameters)}"
            )
        vars(self).update(vars(type(self)(**parameters | params)))
        return self

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Share of the points (n, 2) whose label (n,) is predicted."""
        return float(np.mean(self.predict(X) == np.asarray(y)))  # type: ignore[attr-defined]

    def check_fitted(self) -> None:
        """Raise NotFittedError if `fit` has not been called; without scikit-learn, whose error it
        is, ValueError."""
        if hasattr(self, "classes_"):
            return
        message = f"This {type(self).__name__} is not fitted yet; call fit first"
        try:
            from sklearn.exceptions import NotFittedError
        except ImportError:
            raise ValueError(message) from None
        raise NotFittedError(message)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags())

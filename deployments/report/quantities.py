"""What the figures of a run are called, and in which unit they are printed."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Quantity:
    """A figure of `results.sqlite` as a reader knows it.

    Attributes
    ----------
    words : str
    unit : str
        Empty for a pure number.
    scale : float
        Printed value over stored value.
    decimals : int
    is_cost : bool
        Whether less is better.
    """

    words: str
    unit: str = ""
    scale: float = 1.0
    decimals: int = 2
    is_cost: bool = False

    @property
    def label(self) -> str:
        """For an axis or the head of a table."""
        return f"{self.words} ({self.unit})" if self.unit else self.words


def _accuracy(words: str) -> Quantity:
    return Quantity(words, "%", 100.0, 1)


NAMED = {
    "global_accuracy": _accuracy("global accuracy"),
    "global_accuracy_last3": _accuracy("global accuracy, mean of the last 3 rounds"),
    "global_accuracy_calibrated": _accuracy("global accuracy, calibrated"),
    "global_accuracy_uncalibrated": _accuracy("global accuracy, uncalibrated"),
    "personal_accuracy_mean": _accuracy("personal accuracy"),
    "personal_accuracy_before": _accuracy("personal accuracy of the model as received"),
    "personal_accuracy_pooled": _accuracy("personal accuracy, pooled"),
    "majority_accuracy": _accuracy("accuracy of the majority class"),
    "grouping_accuracy": _accuracy("hulls in the group of their class"),
    "hull_share_revealed": _accuracy("share of the points that hulls reveal"),
    "roc_auc": _accuracy("ROC-AUC"),
    "accuracy_fle": _accuracy("accuracy, Euclidean SVM on the hulls (FLE)"),
    "accuracy_cp": _accuracy("accuracy, Poincaré SVM on all points (CP)"),
    "accuracy_ce": _accuracy("accuracy, Euclidean SVM on all points (CE)"),
    "accuracy_ch_cp": _accuracy("accuracy, Poincaré SVM on hulls of all points (CH-CP)"),
    "accuracy_ch_ce": _accuracy("accuracy, Euclidean SVM on hulls of all points (CH-CE)"),
    "accuracy_logistic": _accuracy("accuracy, logistic on all points"),
    "bytes_up": Quantity("sent by a client per round", "kB", 1e-3, 1, is_cost=True),
    "bytes_down": Quantity("received by a client per round", "kB", 1e-3, 1, is_cost=True),
    "seconds": Quantity("time of a run", "s", 1.0, 1, is_cost=True),
    "seconds_training": Quantity("time in training", "s", 1.0, 1, is_cost=True),
    "hull_vertices_mean": Quantity("vertices of a hull, mean", decimals=1),
    "hull_vertices_max": Quantity("vertices of a hull, most", decimals=1),
    "classifier_cosine": Quantity("cosine between the clients' classifiers", decimals=3),
    "classifier_norm_gap": Quantity("difference of norm between the clients' classifiers", decimals=3),
    "loss": Quantity("training loss", decimals=3, is_cost=True),
    "heterogeneity": Quantity("heterogeneity of labels (Jensen–Shannon)", "", 1.0, 3),
}
"""Those with words, a unit or decimals of their own, by the last part of their names."""


def quantity(column: str) -> Quantity:
    """The quantity of a column, by the last part of its name: `best_validation.global_accuracy` is an accuracy.

    A column that is not known is printed as it is.
    """
    prefix, _, name = column.rpartition(".")
    found = NAMED.get(name, Quantity(name.replace("_", " "), decimals=3))
    if prefix == "best_validation":
        return replace(found, words=f"{found.words}, best validation")
    return found

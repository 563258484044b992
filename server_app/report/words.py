"""The words, units and decimals in which tables and figures show keys, values and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from curvfed.server_app.report.study import SUPERNODES
from curvfed.strategies.base.dotted import dotted

Place = tuple[tuple[str, Any], ...]
"""Keys and values that tell where a run stands in a table or a figure: its row, its panel, its
line."""

FIGURE = "figure"
"""The key of a place whose value is a figure: a column of `results.sqlite`."""

KEY_WORDS = {
    "method": "method",
    "dataset": "data set",
    SUPERNODES: "clients",
    "alpha": "α",
    "local-epochs": "local epochs",
    "learning-rate": "learning rate",
    "embedding-dim": "dimension",
    "fraction-train": "share of clients a round",
    "hyperfed.margin": "margin",
    "hyperfed.slope": "slope",
    "hull.epsilon": "ε",
}
"""Words for keys of the run config; any other key is shown by its name without its table."""


@dataclass(frozen=True)
class Quantity:
    """How a figure of `results.sqlite` is named and printed.

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
        """Words and unit, for an axis or the head of a table."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    def number(self, value: float) -> str:
        """Print a value with the quantity's decimals and a true minus sign."""
        return f"{value:.{self.decimals}f}".replace("-", "−")


def _accuracy(words: str) -> Quantity:
    return Quantity(words, "%", 100.0, 1)


NAMED = {
    "global_accuracy": _accuracy("global accuracy"),
    "global_accuracy_last3": _accuracy("global accuracy, mean of the last 3 rounds"),
    "global_accuracy_calibrated": _accuracy("global accuracy, calibrated"),
    "global_accuracy_uncalibrated": _accuracy("global accuracy, uncalibrated"),
    "personal_accuracy_mean": _accuracy("personal accuracy"),
    "personal_accuracy_before": _accuracy("personal accuracy of the model as received"),
    "personal_accuracy_worst_decile": _accuracy("personal accuracy, worst tenth of the clients"),
    "personal_accuracy_before_worst_decile": _accuracy(
        "accuracy of the model as received, worst tenth of clients"
    ),
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
    "accuracy_multinomial": _accuracy("accuracy, multinomial on all points"),
    "bytes_up": Quantity("sent by a client per round", "kB", 1e-3, 1, is_cost=True),
    "bytes_down": Quantity("received by a client per round", "kB", 1e-3, 1, is_cost=True),
    "seconds": Quantity("time of a run", "s", 1.0, 1, is_cost=True),
    "seconds_training": Quantity("time in training", "s", 1.0, 1, is_cost=True),
    "hull_vertices_mean": Quantity("vertices of a hull, mean", decimals=1),
    "hull_vertices_max": Quantity("vertices of a hull, most", decimals=1),
    "classifier_cosine": Quantity("cosine between the clients' classifiers", decimals=3),
    "classifier_norm_gap": Quantity(
        "difference of norm between the clients' classifiers", decimals=3
    ),
    "loss": Quantity("training loss", decimals=3, is_cost=True),
    "heterogeneity": Quantity("heterogeneity of labels (Jensen–Shannon)", "", 1.0, 3),
}
"""Figures with words, a unit or decimals of their own, by the last part of their name."""


def quantity(column: str) -> Quantity:
    """Look a column up by the last part of its name: `best_validation.global_accuracy` is an
    accuracy.

    An unknown column keeps its own name, with three decimals.
    """
    prefix, _, name = column.rpartition(".")
    found = NAMED.get(name, Quantity(name.replace("_", " "), decimals=3))
    if prefix == "best_validation":
        return replace(found, words=f"{found.words}, best validation")
    return found


class Names:
    """The words for keys, values and figures: those that a table or a figure sets by `names`, else
    the common ones."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = {str(key): str(value) for key, value in dotted(names).items()}

    def key(self, key: str) -> str:
        """Name a key of the run config."""
        return self._names.get(key, KEY_WORDS.get(key, key.rpartition(".")[2].replace("-", " ")))

    def keys(self, keys: Sequence[str]) -> str:
        """Name the keys of an axis."""
        return ", ".join(map(self.key, keys))

    def value(self, value: Any) -> str:
        """Name a value alone."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        return self._names.get(text, text)

    def values(self, place: Place) -> str:
        """Name the values of a place, for a tick."""
        return ", ".join(self.value(value) for _, value in place)

    def setting(self, key: str, value: Any) -> str:
        """Name a value, and a number by its key too: "fedavg", "α = 0.5", "10 clients"."""
        words = self.value(value)
        if key == FIGURE:
            return self.figure(value)
        if isinstance(value, str) or words in self._names.values():
            return words
        return f"{words} clients" if key == SUPERNODES else f"{self.key(key)} = {words}"

    def place(self, place: Place) -> str:
        """Name all settings of a place, without those whose name is empty."""
        return ", ".join(words for key, value in place if (words := self.setting(key, value)))

    def figure(self, column: str) -> str:
        """Name a figure."""
        return self._names.get(column, quantity(column).words)

    def axis(self, columns: Sequence[str]) -> str:
        """Name an axis of these figures by the words that their names share, with the unit that
        they share."""
        kinds = [quantity(column) for column in columns]
        split = [kind.words.replace(",", "").split() for kind in kinds]
        shared = " ".join(word for word in split[0] if all(word in one for one in split))
        words = self.figure(columns[0]) if len(columns) == 1 else shared
        units = {kind.unit for kind in kinds}
        unit = units.pop() if len(units) == 1 else ""
        return (
            f"{words} ({unit})".strip() if unit else words or ", ".join(map(self.figure, columns))
        )

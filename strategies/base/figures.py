"""The registry of figures: what a run measures, with its words, unit, digits and range.

Messages, tables, summaries and pages read it. Its order is that of columns, of rows of tables, and
of the figures in a masked vector.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

CLIENT = "client"
ROUND = "round"
RUN = "run"
METRIC = "metric"
DETAIL = "detail"
"""Levels: columns of `clients.csv` and of `rounds.csv`, keys of `summary.json`, names among its
`metrics`, and those of them that only the report of a run lists."""

GLOBAL_ACCURACY = "global_accuracy"
PERSONAL_ACCURACY = "personal_accuracy_mean"
VALIDATION = "validation"
"""Names of the figures that decide between runs, rounds and methods."""

BEFORE = "_before"
"""End of the name of a score of the model as received, before local training."""

BEST = "best_validation"
"""The key of `summary.json` with the figures of the round of best validation."""

LARGEST = 1e30
"""Largest absolute value of any figure in a message; sums and squares of a few such values are
finite."""

LARGEST_COUNT = 2.0**53 - 1
"""Largest count that a float holds exactly."""

SCALES = {"%": 100.0, "kB": 1e-3}
"""Printed value over stored value, by the printed unit."""


Better = Literal["more", "less", ""]
"""Which values of a figure are better; "" for neither."""


@dataclass(frozen=True)
class Figure:
    """A row of the registry.

    Attributes
    ----------
    name : str
        In messages and files.
    words : str
        In tables and pages.
    levels : tuple of str
        Where it stands: `CLIENT`, `ROUND`, `RUN`, `METRIC`, `DETAIL`.
    unit : str
        Of the printed value: "%" of a fraction, "kB" of bytes, "s"; "" for a pure number; "text".
    digits : int
        Decimals of the printed value.
    low, high : float
        The range of the stored value, ends included.
    is_count : bool
        Whether it is a whole number.
    better : {"more", "less", ""}
    is_sent : bool
        Whether a client's reply may have it.

    Examples
    --------
    >>> accuracy = find("best_validation.personal_accuracy_mean")
    >>> accuracy.label, accuracy.text(0.8125)
    ('personal accuracy, best validation (%)', '81.2%')
    """

    name: str
    words: str
    levels: tuple[str, ...] = (METRIC,)
    unit: str = ""
    digits: int = 3
    low: float = -LARGEST
    high: float = LARGEST
    is_count: bool = False
    better: Better = ""
    is_sent: bool = False

    @property
    def label(self) -> str:
        """Words and unit, for an axis or the head of a table."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    @property
    def scale(self) -> float:
        """Printed value over stored value."""
        return SCALES.get(self.unit, 1.0)

    def number(self, printed: float) -> str:
        """Write a value that is in the printed unit already, with a true minus sign."""
        return f"{printed:.{self.digits}f}".replace("-", "−")

    def text(self, value: Any) -> str:
        """Write a stored value with its unit; a text as it is, a bool as "yes" or "no", None as
        ""."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return "" if value is None else str(value)
        if self.is_count or (isinstance(value, int) and not self.unit):
            return f"{value:,.0f}"
        number = f"{self.scale * value:,.{self.digits}f}".replace("-", "−")
        return f"{number}{self.unit}" if self.unit == "%" else f"{number} {self.unit}".rstrip()

    def check(self, value: float) -> None:
        """Refuse a value outside the range, one that is not finite, and a count that is not whole.

        Raises
        ------
        MessageError
        """
        is_allowed = self.low <= value <= self.high
        if is_allowed and self.is_count:
            is_allowed = value == int(value)
        if not is_allowed:
            # Commands read the registry, and refuse wrong usage before they import Flower.
            from curvfed.strategies.wire.checks import MessageError

            kind = "a whole number" if self.is_count else "a number"
            raise MessageError(
                f"{self.name} is {value}; allowed is {kind} from {self.low:g} to {self.high:g}",
                key="figure-out-of-range",
            )


def _share(name: str, words: str, *levels: str, better: Better = "more", **options: Any) -> Figure:
    """A fraction from 0 to 1, printed in percent."""
    options |= {"unit": "%", "digits": 1, "low": 0.0, "high": 1.0, "better": better}
    return Figure(name, words, levels or (METRIC,), **options)


def _count(name: str, words: str, *levels: str, **options: Any) -> Figure:
    """A whole number, 0 or more; means have a decimal."""
    options |= {"digits": 1, "low": 0.0, "high": LARGEST_COUNT, "is_count": True}
    return Figure(name, words, levels or (METRIC,), **options)


def _cost(name: str, words: str, unit: str, *levels: str, **options: Any) -> Figure:
    """Seconds or bytes; less is better."""
    options |= {"unit": unit, "digits": 1, "low": 0.0, "better": "less"}
    return Figure(name, words, levels or (METRIC,), **options)


_GLOBAL = (
    _share(GLOBAL_ACCURACY, "global accuracy", ROUND, RUN),
    _share("global_majority_accuracy", "accuracy of the most frequent class, global", better=""),
    _share("global_accuracy_last3", "global accuracy, mean of the last 3 rounds"),
    _share("global_accuracy_uncalibrated", "global accuracy, uncalibrated"),
    _share("global_accuracy_calibrated", "global accuracy, calibrated"),
    Figure("not_calibrated", "why the classifier is not calibrated", unit="text"),
)

_PERSONAL = (
    _share(PERSONAL_ACCURACY, "personal accuracy", ROUND, RUN),
    _share("personal_accuracy_std", "personal accuracy, standard deviation", ROUND, RUN, better=""),
    _share(
        "personal_accuracy_worst_decile",
        "personal accuracy, worst tenth of clients",
        ROUND,
        RUN,
    ),
    _share("personal_accuracy_before", "personal accuracy of the model as received"),
    _share(
        "personal_accuracy_before_worst_decile",
        "accuracy as received, worst tenth",
    ),
    _share("personal_accuracy_pooled", "personal accuracy, pooled"),
)

_ROC = (
    _share("roc_auc", "ROC-AUC"),
    _share("roc_auc_std", "ROC-AUC, standard deviation", better=""),
    _share("roc_auc_before", "ROC-AUC of the model as received"),
    _count("roc_auc_clients_left_out", "clients with test data of one class"),
)

_LINKS = (
    _share("reconstruction_map", "mean average precision of all links"),
    _share("frequent_map", "mean average precision of the most frequent tails", better=""),
    _share("global_mrr", "mean reciprocal rank, global"),
    _share(
        "global_frequent_mrr",
        "mean reciprocal rank of the most frequent tails, global",
        better="",
    ),
    _share("global_hits_10", "Hits@10, global"),
    _share("global_link_auc", "AUC of links, global"),
    _share("mrr", "mean reciprocal rank"),
    _share("mrr_std", "mean reciprocal rank, standard deviation", better=""),
    _share("mrr_before", "mean reciprocal rank of the model as received"),
    _count("mrr_clients_left_out", "clients without links to score"),
)

_OPEN = (
    _share("hits_10", "Hits@10", is_sent=True),
    _share("hits_10_before", "Hits@10 of the model as received", is_sent=True),
    _share("link_auc", "AUC of links", is_sent=True),
    _share("link_auc_before", "AUC of links of the model as received", is_sent=True),
)

_CLIENTS = (
    _share("majority_accuracy", "accuracy of the majority class", better=""),
    _share("frequent_mrr", "mean reciprocal rank of the most frequent tails", better=""),
    Figure("loss", "training loss", (CLIENT, ROUND), better="less", is_sent=True),
    _share("score", "test score", CLIENT, ROUND, is_sent=True),
    _share(VALIDATION, "validation score", CLIENT, ROUND, METRIC, is_sent=True),
    _share("accuracy", "test accuracy", CLIENT, is_sent=True),
)

_CLIENTS_BEFORE = (
    _share("score_before", "test score of the model as received", CLIENT, ROUND, is_sent=True),
    _share("validation_before", "validation score of the model as received", CLIENT, is_sent=True),
    _share("accuracy_before", "test accuracy of the model as received", CLIENT, is_sent=True),
    _count("clients_left_out", "clients without test data"),
    Figure("heterogeneity", "heterogeneity of labels (Jensen–Shannon)"),
)

_TRAINING = (
    _count("num_examples", "training examples", CLIENT),
    Figure("weight", "weight in the aggregation", (CLIENT,)),
    Figure("curvature", "curvature", (CLIENT,), is_sent=True),
    _count("steps", "local steps", CLIENT, is_sent=True),
)

_COSTS = (
    _cost("bytes_up", "sent by a client per round", "kB", CLIENT, ROUND, RUN),
    _cost("bytes_down", "received by a client per round", "kB", CLIENT, ROUND, RUN),
    _cost("seconds", "time of a run", "s", CLIENT, ROUND, RUN, is_sent=True),
    _cost("seconds_training", "time in training", "s", ROUND, RUN),
    _cost("seconds_aggregation", "time in aggregation", "s", ROUND, RUN),
)

_HULLS_OF_CLIENT = (
    _count("clipped", "updates that were shortened to secure.clip", CLIENT, is_sent=True),
    _count("points", "training points", CLIENT, is_sent=True),
    _count("revealed", "points that are vertices of hulls", CLIENT, is_sent=True),
    _count("vertices", "vertices of hulls", CLIENT, is_sent=True),
    _count("moved", "points moved onto the public radius", CLIENT, is_sent=True),
    _count("thinned", "vertices that the public cap removed", CLIENT, is_sent=True),
)

_AGGREGATION = (
    Figure("weights_l1", "L1 distance of the weights from the shares", (ROUND,)),
    Figure("norm_ratio", "norm of the aggregate over that of the average", (ROUND,)),
    Figure("classifier_cosine", "cosine between the clients' classifiers", (ROUND,)),
    Figure("classifier_norm_gap", "difference of norm between the clients' classifiers", (ROUND,)),
    _count("replies", "valid replies", ROUND),
    _count("dropped", "dropped replies", ROUND),
)

_PRIVACY = (
    Figure("privacy_epsilon", "privacy loss ε, most of a client", digits=2, low=0.0),
    Figure("privacy_delta", "δ of the privacy loss", digits=8, low=0.0, high=1.0),
    _count("replies_dropped", "dropped replies"),
    _count("nodes_refused", "refused nodes"),
)

_CLASSIFIER = (
    Figure("classifier", "classifier", (DETAIL,), "text"),
    Figure("classifier_temperature", "temperature of the classifier", (DETAIL,)),
    _share("confidence", "mean probability of the predicted class", better=""),
    _share("unknown", "test points outside the outlines of all groups", better=""),
)

_HULLS = (
    _count("hull_points", "training points of all clients", DETAIL),
    _count("hull_points_shared", "vertices of hulls that leave the clients", DETAIL),
    _share("hull_share_revealed", "share of the points that hulls reveal", better=""),
    _count("clients_mostly_sent", "clients most of whose points are vertices", DETAIL),
    _count("hull_points_moved", "points moved onto the public radius", DETAIL),
)

_GROUPS = (
    _count("hull_count", "hulls"),
    Figure("hull_vertices_mean", "vertices of a hull, mean", (DETAIL,), digits=1),
    _count("hull_vertices_max", "vertices of a hull, most", DETAIL),
    _count("hull_vertices_thinned", "vertices that the public cap removed", DETAIL),
    _count("hull_groups", "groups of hulls"),
    _share("grouping_accuracy", "hulls in the group of their class"),
    _share("votes_agreed", "votes that agree with the names of the groups", DETAIL),
)

_BINS = (
    Figure("hulls_exact", "decoded hulls equal those of the clients", (DETAIL,), "text"),
    Figure("hull_epsilon", "ε, hyperbolic distance", (DETAIL,), digits=4),
    _count("hull_bins", "bins of the quantiser", DETAIL),
    _count("hull_bins_kept", "bins above the noise", DETAIL),
    Figure("hull_threshold", "points that a bin needs to stand out", (DETAIL,)),
)

_SUMS = (
    _count("points_summed", "points or cells in the sum", DETAIL),
    Figure("sum_error", "bound on the error of the sum", (DETAIL,)),
    _count("hull_prime", "prime of the sums", DETAIL),
    _count("hull_symbols", "numbers that each client sends", DETAIL),
    _count("clients_summed", "clients in the sum", DETAIL),
    _count("clients_decoded", "clients with decoded hulls", DETAIL),
    _count("clients_refused", "clients that sent no hull", DETAIL),
)

_OUTLIERS = (
    _count("clients_odd", "clients with outlying hulls", DETAIL),
    _count("clients_turned", "clients whose hulls are turned or mirrored", DETAIL),
    Figure("outlying_hulls", "outlying hulls by class", (DETAIL,), "text"),
    _share("outliers_effect", "points that outlying hulls give another group", DETAIL, better=""),
    _count("clients_fallen", "clients that a model of their own serves better", DETAIL),
    _count("groups_left_out", "groups of clients left out because their sum failed"),
    _count("dropouts", "clients that dropped out"),
    _count("classes_disputed", "classes whose name is disputed", DETAIL),
    _count("classes_pooled", "classes with the covariance of all classes", DETAIL),
)

_KINDS = {
    "depth": "depth",
    "logistic": "logistic",
    "lorentz": "lorentz",
    "plane": "multinomial",
    "poincare": "svm",
}

_CHOICE = (
    Figure("svm_c", "C of the classifier", (DETAIL,)),
    *(
        _share(f"left_out_{kind}", f"accuracy on hulls of left-out clients, {words}", DETAIL)
        for kind, words in _KINDS.items()
    ),
    _share("classifiers_disagree", "points that classifiers dispute", DETAIL, better=""),
    _count("components", "principal components"),
    _share("variance_share", "variance that the components keep"),
    _cost("seconds_decoding", "time in decoding hulls", "s", DETAIL),
)

ROWS = (
    *_GLOBAL,
    *_PERSONAL,
    *_ROC,
    *_LINKS,
    *_OPEN,
    *_CLIENTS,
    *_CLIENTS_BEFORE,
    *_TRAINING,
    *_COSTS,
    *_HULLS_OF_CLIENT,
    *_AGGREGATION,
    *_PRIVACY,
    *_CLASSIFIER,
    *_HULLS,
    *_GROUPS,
    *_BINS,
    *_SUMS,
    *_OUTLIERS,
    *_CHOICE,
)
"""The figures of curvfed itself, except those of single methods."""

SENT = {row.name: row for row in ROWS if row.is_sent}
"""The figures that a client's reply may have."""

HULL_COUNTS = ("points", "revealed", "vertices", "moved", "thinned")
"""Those about a client's hulls."""

OPEN_SCORES = ("hits_10", "link_auc", "hits_10_before", "link_auc_before")
"""Those that no secure sum has."""

SUMMED = tuple(name for name in SENT if name not in (*HULL_COUNTS, *OPEN_SCORES))
"""Those that a secure sum adds up, in the order of their coordinates."""

MEANS = tuple(name for name, row in SENT.items() if ROUND in row.levels)
"""Those whose mean over the clients `rounds.csv` has."""

FIGURES = {row.name: row for row in ROWS}
"""All figures by name, those of imported methods included."""


def names(level: str) -> tuple[str, ...]:
    """The names of curvfed's own figures at a level, in order."""
    return tuple(row.name for row in ROWS if level in row.levels)


def register(*rows: Figure) -> None:
    """Add the figures of a method, which calls this in its own module.

    Raises
    ------
    ValueError
        If another figure has the name of one of them.
    """
    for row in rows:
        if FIGURES.setdefault(row.name, row) != row:
            raise ValueError(
                f"the figure {row.name!r} is registered as {FIGURES[row.name].words!r}; allowed is"
                " another name"
            )


def find(column: str) -> Figure:
    """The figure of a column of `results.sqlite`, `rounds.csv`, `clients.csv`, or of a key of
    `summary.json`.

    Parameters
    ----------
    column : str
        A name, alone or after the tables that it stands in ("best_validation.metrics.validation").

    Returns
    -------
    Figure
        Its words name the round of best validation. The bytes and seconds of one phase
        ("seconds_hulls") and a figure without a row get one made of their name.
    """
    table, _, name = column.rpartition(".")
    row = FIGURES.get(name) or _of_phase(name) or Figure(name, name.replace("_", " "))
    return replace(row, words=f"{row.words}, best validation") if table.startswith(BEST) else row


def words_of(name: str, figures: Container[str]) -> str:
    """The words of a figure beside the others of its run: the accuracy of links is Hits@1."""
    words = find(name).words
    return words.replace("accuracy", "Hits@1") if "mrr" in figures else words


def _of_phase(name: str) -> Figure | None:
    """A cost of a single phase of a one-shot run."""
    cost, _, phase = name.rpartition("_")
    row = FIGURES.get(cost)
    if row is None:
        return None
    from curvfed.strategies.wire.messages import MESSAGE_TYPES

    if phase not in MESSAGE_TYPES:
        return None
    return replace(row, name=name, words=f"{row.words}, {phase}", levels=(DETAIL,))


def check_sent(metrics: Mapping[str, float]) -> None:
    """Refuse unknown figures of a client, and values out of their range.

    Raises
    ------
    MessageError
        Names the first wrong one.
    """
    for name, value in metrics.items():
        if name not in SENT:
            from curvfed.strategies.wire.checks import MessageError

            raise MessageError(
                f'the metric "{name}" is unexpected; expected are {", ".join(sorted(SENT))}',
                key="unexpected-figure",
            )
        SENT[name].check(value)

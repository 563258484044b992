"""The registry of figures: the measurements of a run, with words, unit, digits and range.

Messages, tables, summaries and pages read it. Its order is that of columns, of rows of tables, and
of the figures in a masked vector.
"""

from collections.abc import Container
from dataclasses import replace

from curvfed.strategies.base.figure import (
    CLIENT,
    DETAIL,
    METRIC,
    ROUND,
    RUN,
    Figure,
    cost,
    count,
    faults,
    share,
)
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins
from curvfed.tasks.kinds import ADDED

GLOBAL_ACCURACY = "global_accuracy"
PERSONAL_ACCURACY = "personal_accuracy_mean"
VALIDATION = "validation"
"""Names of the figures that decide between runs, rounds and methods."""

STD = "_std"
"""End of the name of the standard deviation of a figure, which shares the figure's cell."""

BEFORE = "_before"
"""End of the name of a score of the model as received, before local training."""

PER_ROUND = " per round"
"""End of the words of a mean over the rounds, which a one-shot run lacks."""

BEST = "best_validation"
"""The key of `summary.json` with the figures of the round of best validation."""

PERSONAL_EXAMPLES = "personal_examples"
GLOBAL_EXAMPLES = "global_examples"
"""The numbers of test examples of the clients' scores, and of the global model's."""

EXAMPLES = (PERSONAL_EXAMPLES, GLOBAL_EXAMPLES)
"""Those, which stand in tables beside the scores."""

_GLOBAL = (
    share(GLOBAL_ACCURACY, "global accuracy", ROUND, RUN, examples=GLOBAL_EXAMPLES),
    count(GLOBAL_EXAMPLES, "test examples of the global scores"),
    share("global_majority_accuracy", "accuracy of the most frequent class, global", better=""),
    share("global_accuracy_last3", "global accuracy, mean of the last 3 rounds"),
    share("global_accuracy_uncalibrated", "global accuracy, uncalibrated"),
    share("global_accuracy_calibrated", "global accuracy, calibrated"),
    Figure("not_calibrated", "why the classifier is not calibrated", unit="text"),
)

_PERSONAL = (
    share(PERSONAL_ACCURACY, "personal accuracy", ROUND, RUN, examples=PERSONAL_EXAMPLES),
    count(PERSONAL_EXAMPLES, "test examples of the personal scores"),
    share("personal_accuracy_std", "personal accuracy, standard deviation", ROUND, RUN, better=""),
    share(
        "personal_accuracy_worst_decile",
        "personal accuracy, worst tenth of clients",
        ROUND,
        RUN,
    ),
    share("personal_accuracy_before", "personal accuracy of the model as received"),
    share(
        "personal_accuracy_before_worst_decile",
        "accuracy as received, worst tenth",
    ),
    share("personal_accuracy_pooled", "personal accuracy, pooled"),
)

_ROC = (
    share("roc_auc", "ROC-AUC", examples=PERSONAL_EXAMPLES, short="ROC-AUC"),
    share("roc_auc_std", "ROC-AUC, standard deviation", better=""),
    share("roc_auc_before", "ROC-AUC of the model as received"),
    faults("roc_auc_clients_left_out", "clients with test data of one class"),
)

_ADDED = tuple(figure for kind in ADDED.values() for figure in kind.part("figures") or ())

_CLIENTS = (
    share("majority_accuracy", "accuracy of the majority class", better=""),
    Figure("loss", "training loss", (CLIENT, ROUND), better="less", is_sent=True),
    share("score", "test score", CLIENT, ROUND, is_sent=True),
    share(VALIDATION, "validation score", CLIENT, ROUND, METRIC, is_sent=True),
    share("accuracy", "test accuracy", CLIENT, is_sent=True),
)

_CLIENTS_BEFORE = (
    share("score_before", "test score of the model as received", CLIENT, ROUND, is_sent=True),
    share("validation_before", "validation score of the model as received", CLIENT, is_sent=True),
    share("accuracy_before", "test accuracy of the model as received", CLIENT, is_sent=True),
    faults("clients_left_out", "clients without a score", left_out_of=PERSONAL_ACCURACY),
    Figure("heterogeneity", "heterogeneity of labels (Jensen–Shannon)"),
)

_TRAINING = (
    count("num_examples", "training examples", CLIENT),
    Figure("weight", "weight in the aggregation", (CLIENT,)),
    Figure("curvature", "curvature", (CLIENT,), is_sent=True),
    count("steps", "local steps", CLIENT, is_sent=True, is_open=True),
)

_COSTS = (
    cost("bytes_up", f"sent by a client{PER_ROUND}", "kB", CLIENT, ROUND, RUN),
    cost("bytes_down", f"received by a client{PER_ROUND}", "kB", CLIENT, ROUND, RUN),
    cost("seconds", "time of a run", "s", CLIENT, ROUND, RUN, is_sent=True),
    cost("seconds_training", "time in training", "s", ROUND, RUN, hides_zero=True),
    cost("seconds_aggregation", "time in aggregation", "s", ROUND, RUN),
)

_HULLS_OF_CLIENT = (
    count("clipped", "updates that were shortened to secure.clip", CLIENT, is_sent=True),
    count("points", "training points", CLIENT, is_sent=True),
    count("revealed", "points that are vertices of hulls", CLIENT, is_sent=True),
    count("vertices", "vertices of hulls", CLIENT, is_sent=True),
    count("moved", "points moved onto the public radius", CLIENT, is_sent=True),
    count("thinned", "vertices that the public cap removed", CLIENT, is_sent=True),
)

_AGGREGATION = (
    Figure("weights_l1", "L1 distance of the weights from the shares", (ROUND,)),
    Figure("norm_ratio", "norm of the aggregate over that of the average", (ROUND,)),
    Figure("classifier_cosine", "cosine between the clients' classifiers", (ROUND,)),
    Figure("classifier_norm_gap", "difference of norm between the clients' classifiers", (ROUND,)),
    count("replies", "valid replies", ROUND),
    count("dropped", "dropped replies", ROUND),
)

_REFUSED = (
    faults("replies_dropped", "dropped replies"),
    faults("nodes_refused", "refused nodes"),
)

_CLASSIFIER = (
    Figure("classifier", "classifier", (DETAIL,), "text"),
    Figure("classifier_temperature", "temperature of the classifier", (DETAIL,)),
    share("confidence", "mean probability of the predicted class", better=""),
    share("unknown", "test points outside the outlines of all groups", better=""),
)

_HULLS = (
    count("hull_points", "training points of all clients", DETAIL),
    count("hull_points_shared", "vertices of hulls that leave the clients", DETAIL),
    share("hull_share_revealed", "share of the points that hulls reveal", better=""),
    faults("clients_mostly_sent", "clients most of whose points are vertices", DETAIL),
    faults("hull_points_moved", "points moved onto the public radius", DETAIL),
)

_GROUPS = (
    count("hull_count", "hulls"),
    Figure("hull_vertices_mean", "vertices of a hull, mean", (DETAIL,), digits=1),
    count("hull_vertices_max", "vertices of a hull, most", DETAIL),
    faults("hull_vertices_thinned", "vertices that the public cap removed", DETAIL),
    count("hull_groups", "groups of hulls"),
    faults("classes_left_out", "classes without hulls", DETAIL),
    share("grouping_accuracy", "hulls in the group of their class"),
    share("votes_agreed", "votes that agree with the names of the groups", DETAIL),
)

_BINS = (
    Figure("hulls_exact", "decoded hulls equal those of the clients", (DETAIL,), "text"),
    Figure("hull_epsilon", "ε, hyperbolic distance", (DETAIL,), digits=4),
    count("hull_bins", "bins of the quantiser", DETAIL),
)

_SUMS = (
    count("points_summed", "points or cells in the sum", DETAIL),
    Figure("sum_error", "bound on the error of the sum", (DETAIL,)),
    count("hull_prime", "prime of the sums", DETAIL),
    count("hull_symbols", "numbers that each client sends", DETAIL),
    count("clients_summed", "clients in the sum", DETAIL),
    count("clients_decoded", "clients with decoded hulls", DETAIL),
    faults("clients_refused", "clients that sent no hull", DETAIL),
)

_OUTLIERS = (
    faults("clients_odd", "clients with outlying hulls", DETAIL),
    faults("clients_turned", "clients whose hulls are turned or mirrored", DETAIL),
    Figure("outlying_hulls", "outlying hulls by class", (DETAIL,), "text"),
    share("outliers_effect", "points that outlying hulls give another group", DETAIL, better=""),
    faults("clients_fallen", "clients that a model of their own serves better", DETAIL),
    faults("groups_left_out", "groups of clients left out because their sum failed"),
    faults("dropouts", "clients that dropped out"),
    faults("classes_disputed", "classes whose name is disputed", DETAIL),
    faults("classes_pooled", "classes with the covariance of all classes", DETAIL),
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
        share(f"left_out_{kind}", f"accuracy on hulls of left-out clients, {words}", DETAIL)
        for kind, words in _KINDS.items()
    ),
    share("classifiers_disagree", "points that classifiers dispute", DETAIL, better=""),
    count("components", "principal components"),
    share("variance_share", "variance that the components keep"),
    cost("seconds_decoding", "time in decoding hulls", "s", DETAIL),
)

_OF_ROUNDS = (
    *_GLOBAL,
    *_PERSONAL,
    *_ROC,
    *_ADDED,
    *_CLIENTS,
    *_CLIENTS_BEFORE,
    *_TRAINING,
    *_COSTS,
    *_HULLS_OF_CLIENT,
    *_AGGREGATION,
)

_OF_CLASSIFIERS = (
    *_REFUSED,
    *_CLASSIFIER,
    *_HULLS,
    *_GROUPS,
    *_BINS,
    *_SUMS,
    *_OUTLIERS,
    *_CHOICE,
)


def _of_group() -> tuple[Figure, ...]:
    """The figures of the group `curvfed.figures`, with names of their own. Others are left
    out, with a warning; so are those that clients would send, because all sites of a run must agree
    on the order of the figures in a masked vector."""
    taken = {row.name for row in (*_OF_ROUNDS, *_OF_CLASSIFIERS)}
    added: list[Figure] = []
    for name, rows in plugins.usable("figures", tuple):
        for row in rows:
            if isinstance(row, Figure) and not row.is_sent and row.name not in taken:
                added.append(row)
                taken.add(row.name)
            else:
                log.warning(
                    "curvfed.figures: %s: %r is left out; allowed is a %s.Figure with a name of its"
                    " own and without is_sent",
                    name,
                    row,
                    Figure.__module__,
                )
    return tuple(added)


ROWS = (*_OF_ROUNDS, *_of_group(), *_OF_CLASSIFIERS)
"""The figures of curvfed itself and of kinds of data, except those of single methods."""

SENT = {row.name: row for row in ROWS if row.is_sent}
"""The figures that a client's reply may have."""

HULL_COUNTS = ("points", "revealed", "vertices", "moved", "thinned")
"""Those about a client's hulls."""

SUMMED = tuple(name for name, row in SENT.items() if name not in HULL_COUNTS and not row.is_open)
"""Those that a secure sum adds up, in the order of their coordinates. The numbers of steps are not
among them: at several sizes of a batch, their sums give each member's number of examples."""

SHARES = frozenset(name for name in SUMMED if SENT[name].unit == "%")
"""Those of them that are fractions of a member's examples."""

MEANS = tuple(name for name, row in SENT.items() if ROUND in row.levels)
"""Those with their mean over the clients in `rounds.csv`."""

PHASE_COSTS = ("seconds", "bytes_up", "bytes_down")
"""The costs that a one-shot run has for each of its phases, as "seconds_hulls"."""

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
    if table.startswith(BEST):
        return replace(row, words=f"{row.words}, best validation")
    return row


def words_of(name: str, figures: Container[str]) -> str:
    """The words of a figure among the others of its run, of which a metric may have its own words
    for accuracy."""
    words = find(name).words
    for row in FIGURES.values():
        if row.accuracy and row.name in figures:
            words = words.replace("accuracy", row.accuracy)
    return words


def _of_phase(name: str) -> Figure | None:
    """A cost of a single phase of a one-shot run."""
    cost, _, phase = name.rpartition("_")
    if cost not in PHASE_COSTS:
        return None
    row = FIGURES[cost]
    return replace(row, name=name, words=f"{row.words}, {phase}", levels=(DETAIL,))

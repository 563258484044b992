"""The page of a sweep: one table, one line plot and one box plot of its runs.

Importing it imports none of its modules: a command's help needs only the formats.
"""

from collections.abc import Sequence

from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY

FORMATS = ("md", "html", "tex", "csv", "pdf")
"""Formats of a sweep's page and table. Figures are always written as png and svg; pdf adds PDF
files of them."""

METRICS = ("roc_auc", "mrr")
"""Figures of a run's metrics that replace the accuracy where the data's metric is one of them."""

SCORES: dict[str, Sequence[str]] = {
    "personal": (*(f"{BEST}.metrics.{name}" for name in METRICS), f"{BEST}.{PERSONAL_ACCURACY}"),
    "global": ("metrics.global_mrr", GLOBAL_ACCURACY),
    "reconstruction": ("metrics.reconstruction_map",),
}
"""The figures of a kind of score; a run's score is the first that it has."""

"""The figures of differential privacy in a run's summary."""

from curvfed.strategies.base.figure import DETAIL, Figure, count

FIGURES = (
    Figure("privacy_epsilon", "privacy loss ε, most of a client", digits=2, low=0.0),
    Figure("privacy_delta", "δ of the privacy loss", digits=8, low=0.0, high=1.0),
    count("hull_bins_kept", "bins above the noise", DETAIL),
    Figure("hull_threshold", "points that a bin needs to stand out", (DETAIL,)),
)

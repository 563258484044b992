"""A run of principal components: one secure sum of the moments of all cells, and the reference that follows from it."""

from collections.abc import Mapping
from typing import Any

from curvfed.server_app.one_shot.discriminant_run import DiscriminantRun
from curvfed.server_app.one_shot.hull_scores import KnownPoints
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.methods.pca import BOUND, length, reference


class PcaRun(DiscriminantRun):
    """A run of `method=pca`."""

    def run(self) -> None:
        """As `DiscriminantRun.run`, for the genes of the configuration.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.genes = self.config.table("pca").names
        super().run()

    def _vector(self) -> tuple[int, float]:
        return length(len(self.genes)), BOUND

    def _finish(self, arrays: Arrays, about: Mapping[str, Any], known: KnownPoints) -> None:
        """Write the reference; there is nothing to score."""
        cells, count = self.metrics["points_summed"], len(self.genes)
        found = reference(arrays["moments"], cells, count, self.config.table("pca").components)
        self.metrics |= {
            "components": len(found["variances"]),
            "variance_share": float(found["variances"].sum() / count),
        }
        self.warn()
        self._write_model(found)

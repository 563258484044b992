"""A run of principal components: one secure sum of the moments of all cells, and the reference that
follows from it."""

from collections.abc import Mapping
from typing import Any

from curvfed.server_app.one_shot.discriminant_run import DiscriminantRun
from curvfed.server_app.one_shot.hull_scores import ServerPoints
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.statistics import Arrays
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

    def _finish(
        self, arrays: Arrays, metadata: Mapping[str, Any], server_points: ServerPoints
    ) -> None:
        """Write the reference; there is nothing to score."""
        cells = self.metrics["points_summed"]
        max_components = self.config.table("pca").components
        arrays_of_model, share = reference(
            arrays["moments"], cells, len(self.genes), max_components
        )
        if (count := len(arrays_of_model["variances"])) < 2:
            raise RoundError(
                f"the {cells} cells differ in {count} directions of pca.genes; a map needs at least"
                " 2",
                key="too-few-directions",
            )
        self.metrics |= {"components": count, "variance_share": share}
        self.warn()
        self._write_model(arrays_of_model)

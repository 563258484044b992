"""A run of principal components: one secure sum of the moments of all cells, and the reference that follows from it."""

from dataclasses import asdict

import numpy as np

from curvfed.server_app.one_shot.discriminant_run import DiscriminantRun
from curvfed.server_app.one_shot.hull_scores import KnownPoints
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.methods.pca import BOUND, length, reference


class PcaRun(DiscriminantRun):
    """A run of `method=pca`."""

    def run(self) -> None:
        """As `DiscriminantRun.run`, for the genes of the configuration.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        try:
            self.genes = self.config.table("pca").names
        except ValueError as error:
            raise ConfigError(str(error)) from None
        super().run()

    def _vector(self) -> tuple[int, float]:
        return length(len(self.genes)), BOUND

    def _finish(self, total: np.ndarray, known: KnownPoints) -> None:
        """Write the reference; there is nothing to score."""
        cells, count = self.metrics["points_summed"], len(self.genes)
        arrays = reference(total, cells, count, self.config.table("pca").components)
        self.metrics |= {
            "components": len(arrays["variances"]),
            "variance_share": float(arrays["variances"].sum() / count),
        }
        self.warn()
        about = {"method": self.config.method, "metric": "", "facts": asdict(self.federation.facts), "stamps": {},
                 "last_round": 0}  # fmt: skip
        self.directory.write_model(arrays, about)

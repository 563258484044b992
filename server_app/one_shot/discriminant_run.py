"""A run of discriminant analysis: one secure sum of the classes' moments, the classifier, its scores; no rounds."""

import logging
import time
from dataclasses import asdict

import numpy as np

from curvfed.server_app.directory.checkpoint import identity
from curvfed.server_app.one_shot.discriminant_classifier import discriminant
from curvfed.server_app.one_shot.hull_run import DECODED, EVALUATION, PROTOCOL, HullRun
from curvfed.server_app.one_shot.hull_scores import KnownPoints
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.masked_phases import check_session, masked_phase
from curvfed.strategies.config.point_data import point_spec
from curvfed.strategies.hull.naming import elected
from curvfed.strategies.methods.discriminant import BOUND, length
from curvfed.strategies.wire.messages import HULLS

log = logging.getLogger("curvfed")

FEATURES = 2


class DiscriminantRun(HullRun):
    """A run of `method=discriminant`."""

    def run(self) -> None:
        """Meet the clients, sum the moments of their classes, compute the classifier, score, store.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.connect()
        spec = point_spec(self.config, self.config.points)
        known = KnownPoints.read(spec, self.config.test_data, self.federation)
        found = self._loaded() if self.config.resume else None
        total = found[0]["moments"] if found else None
        self.directory.start_writing(PROTOCOL if total is not None else PROTOCOL - 1)
        self.directory.write_clients(self.federation.record())
        self.sinks.start()
        if total is None:
            total = self._sum_moments()
        self._finish(total, known)
        self.clock()

    def _sum_moments(self) -> np.ndarray:
        """The moments of all clients together."""
        header, clients = self.header(HULLS, PROTOCOL), list(self.federation.nodes)
        check_session(header, clients, self.sums)
        phase, total = masked_phase(self._ask, header, clients, self.sums, *self._vector())
        self.metrics |= {"clients_summed": len(phase.replies), "points_summed": total.weight, "sum_error": total.error}
        self.clock()
        about = {"before": identity(self.federation), "metrics": self.metrics, "totals": self.state.totals}
        self._store.save(DECODED, {"moments": total.values}, about, durable=True)
        self.sinks.flush()
        return total.values

    def _vector(self) -> tuple[int, float]:
        """Length of a client's vector, and the bound of what one point adds to an entry."""
        return length(FEATURES, len(self.federation.facts.class_names)), BOUND

    def _finish(self, total: np.ndarray, known: KnownPoints) -> None:
        """Compute the classifier, score it, write it."""
        started, names = time.monotonic(), self.federation.facts.class_names
        kind = self.config.table("discriminant").kind
        try:
            classifier = discriminant(total, kind, self.config.points.curvature)
        except ValueError as error:
            raise RoundError(str(error)) from None
        self.state.add(seconds_aggregation=time.monotonic() - started)
        arrays = classifier.arrays()
        votes = self._score(arrays)
        disputed = sum(one not in (-1, group) for group, one in enumerate(elected(votes)))
        self.metrics |= {"classifier": kind, "classes_disputed": disputed}
        if known.test is not None and len(known.test.points):
            predicted = np.array(names)[classifier.predict(known.test.points)]
            right = predicted == np.array(known.test.class_names)[known.test.labels]
            self.state.scored["last"] = [float(right.mean())]
            self.metrics["confidence"] = float(classifier.probabilities(known.test.points).max(axis=1).mean())
        self.warn()
        log.info("%s of %d classes, round %d", kind, len(classifier.groups), EVALUATION)
        about = {"method": self.config.method, "metric": self.federation.metric, "facts": asdict(self.federation.facts),
                 "stamps": {}, "last_round": 0, "groups": list(names)}  # fmt: skip
        self.directory.write_model(arrays, about)

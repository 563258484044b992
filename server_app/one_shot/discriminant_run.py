"""A run of discriminant analysis: one secure sum of the classes' moments, the classifier, its scores; no rounds."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from curvfed.server_app.one_shot.discriminant_classifier import discriminant
from curvfed.server_app.one_shot.hull_scores import KnownPoints
from curvfed.server_app.one_shot.one_shot_run import EVALUATION, PROTOCOL, OneShotRun
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.masked_phases import check_session, masked_phase
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.hull.naming import elected
from curvfed.strategies.methods.discriminant import BOUND, length
from curvfed.strategies.wire.messages import HULLS

log = logging.getLogger("curvfed")

FEATURES = 2


class DiscriminantRun(OneShotRun):
    """A run of `method=discriminant`."""

    def _sum(self) -> tuple[Arrays, dict[str, Any]]:
        """The moments of all clients together."""
        header, clients = self.header(HULLS, PROTOCOL), list(self.federation.nodes)
        check_session(header, clients, self.sums)
        phase, total = masked_phase(self._ask, header, clients, self.sums, *self._vector())
        self.metrics |= {"clients_summed": len(phase.replies), "points_summed": total.weight, "sum_error": total.error}
        return {"moments": total.values}, {}

    def _vector(self) -> tuple[int, float]:
        """Length of a client's vector, and the bound of what one point adds to an entry."""
        return length(FEATURES, len(self.federation.facts.class_names)), BOUND

    def _finish(self, arrays: Arrays, about: Mapping[str, Any], known: KnownPoints) -> None:
        """Compute the classifier, score it, write it."""
        started, names = time.monotonic(), self.federation.facts.class_names
        kind = self.config.table("discriminant").kind
        try:
            classifier = discriminant(arrays["moments"], kind, self.config.points.curvature)
        except ValueError as error:
            raise RoundError(str(error)) from None
        self.state.add(seconds_aggregation=time.monotonic() - started)
        model = classifier.arrays()
        votes = self._score(model)
        disputed = sum(one not in (-1, group) for group, one in enumerate(elected(votes)))
        self.metrics |= {"classifier": kind, "classes_disputed": disputed}
        if known.test is not None and len(known.test.points):
            predicted = np.array(names)[classifier.predict(known.test.points)]
            right = predicted == np.array(known.test.class_names)[known.test.labels]
            self.state.scored["last"] = [float(right.mean())]
            self.metrics["confidence"] = float(classifier.probabilities(known.test.points).max(axis=1).mean())
        self.warn()
        log.info("%s of %d classes, round %d", kind, len(classifier.groups), EVALUATION)
        self._write_model(model, names)

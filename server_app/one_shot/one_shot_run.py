"""A one-shot run: one secure sum, a model that the server learns from it, and the clients' scores
of the model. It has no rounds."""

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from curvfed.server_app.directory.checkpoint import identity, with_facts
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.one_shot.hull_scores import ServerPoints
from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.run import Run
from curvfed.server_app.secure.masked_phases import masked_phase
from curvfed.server_app.secure.secure_sum import SumsOfRun
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.point_data import point_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull.naming import FALLEN, VOTES
from curvfed.strategies.wire.checks import check_votes
from curvfed.strategies.wire.messages import EVALUATE, UNMASK, Header, Parts
from curvfed.strategies.wire.store import Store, StoreError

log = logging.getLogger("curvfed")

PROTOCOL = 0
EVALUATION = 1
"""Round numbers in the messages. A resumed run drops the rows of the evaluation and asks for the
scores again."""

SUMMED = 1
"""Stamp of the stored sum. A resumed run reads it, so that clients reveal nothing twice."""

DISAGREEMENT = 0.1
"""Minimum share of drawn points with disagreeing classifiers for a warning."""


class OneShotRun(Run):
    """A one-shot run."""

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        super().__init__(config, grid, directory)
        self.sums = SumsOfRun(config, config.secure)
        self.metrics: dict[str, Any] = {}
        self._unmasked = 0
        self._store = Store(directory.path / "checkpoint" / "hulls")

    @abstractmethod
    def _sum(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The arrays and metadata of the clients' sum; None if the run stops before it."""

    @abstractmethod
    def _finish(
        self, arrays: Arrays, metadata: Mapping[str, Any], server_points: ServerPoints
    ) -> None:
        """Learn from the result of `_sum`, score, write."""

    def run(self) -> None:
        """Connect the clients, sum, learn, score, store.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.connect()
        # An error in these points must come before the clients reveal anything.
        server_points = ServerPoints.read(
            point_spec(self.config, self.config.points), self.config.test_data, self.federation
        )
        summed = self._load_sum() if self.config.resume else None
        self.directory.start_writing(PROTOCOL if summed else PROTOCOL - 1)
        self.directory.write_clients(self.federation.record())
        self.sinks.start()
        if summed is None and (summed := self._sum()):
            self.clock()
            arrays, metadata = summed
            metadata |= {
                "before": identity(self.federation),
                "metrics": self.metrics,
                "totals": self.state.totals,
            }
            self._store.save(SUMMED, arrays, metadata, durable=True)
            self.sinks.flush()
        if summed is not None:
            self._finish(*summed, server_points)
        self.clock()

    def _write_model(self, arrays: Arrays, groups: Sequence[str] = ()) -> None:
        """Write `model.safetensors`, with the names of the classifier's groups."""
        metadata = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {},
            "last_round": 0,
            "groups": list(groups),
        }
        self.directory.write_model(arrays, metadata)

    def extra_settings(self) -> dict[str, Any]:
        """Empty: every setting of this run is a key."""
        return {}

    def extra_metrics(self) -> dict[str, Any]:
        """Figures of the protocol and the hulls."""
        return self.metrics

    def _warnings(self) -> dict[str, str]:
        return super()._warnings() | one_shot_warnings(self.metrics)

    def _load_sum(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The stored result of `_sum`; None if the run ended before it."""
        try:
            arrays, metadata = self._store.load(SUMMED)
        except StoreError as error:
            if SUMMED in self._store.stamps():
                raise ConfigError(
                    f"resume = true: {error}; restore the file, or start again with another"
                    " run-name",
                    key="unreadable-sum",
                ) from None
            log.info("no stored sum: starting anew")
            return None
        log.info("resuming with the stored sum")
        self.federation = with_facts(self.federation, metadata["before"])
        self.metrics = metadata["metrics"]
        self.state.totals = metadata["totals"]
        return arrays, metadata

    def _score(self, arrays: Arrays) -> NDArray[np.float64]:
        """Ask the clients for scores of the classifier and names of the groups, singly or as a
        secure sum.

        Returns
        -------
        array (groups, classes)
            Number of clients that give a group the name of a class.
        """
        header = self.header(EVALUATE, EVALUATION)
        clients = list(self.federation.nodes)
        votes = np.zeros((int(arrays["groups"][-1]) + 1, len(self.federation.facts.class_names)))
        if not self.config.secure_sum:
            parts: dict[int, Parts] = {partition: {} for partition in clients}
            scored = self._ask(
                header,
                parts,
                lambda reply: check_votes(reply.arrays[VOTES], reply.arrays[FALLEN]),
                {VOTES: votes, FALLEN: np.zeros(1)},
                arrays,
            )
            self.state.latest = {
                partition: dict(scores) for partition, scores in scored.scores.items() if scores
            }
            self.metrics["clients_fallen"] = int(
                sum(reply.arrays[FALLEN][0] for reply in scored.replies.values())
            )
            return sum((reply.arrays[VOTES] for reply in scored.replies.values()), votes)

        def ask(
            header: Header, parts: Mapping[int, Parts], check: Check, template: Arrays | None = None
        ) -> Phase:
            return self._ask(header, parts, check, template, arrays if template else None)

        scored, total = masked_phase(ask, header, clients, self.sums, votes.size + 1)
        self.state.cohort = dict(scored.cohort or {})
        self.metrics["clients_fallen"] = int(np.rint(total.values[-1]))
        return np.rint(total.values[:-1]).reshape(votes.shape)

    def _ask(
        self,
        header: Header,
        parts: Mapping[int, Parts],
        check: Check | None = None,
        template: Arrays | None = None,
        arrays: Arrays | None = None,
    ) -> Phase:
        """Run a phase and record it."""
        started = time.monotonic()
        requests = {
            partition: ClientRequest(arrays=arrays or {}, parts=values, template=template or {})
            for partition, values in parts.items()
        }
        phase = self.send(header, requests, check)
        phase_name = header.phase
        seconds = time.monotonic() - started
        self._unmasked += len(phase.replies) * (phase_name == UNMASK)
        row = phase.row(self.federation) | {"seconds": seconds}
        self.record(phase, row, {})
        for cost, value in (
            ("seconds", seconds),
            ("bytes_up", row["bytes_up"]),
            ("bytes_down", row["bytes_down"]),
        ):
            self.metrics[f"{cost}_{phase_name}"] = (
                self.metrics.get(f"{cost}_{phase_name}", 0) + value
            )
        log.info(
            "%s: %d of %d clients  %.2f s", phase_name, len(phase.replies), len(parts), seconds
        )
        return phase


def one_shot_warnings(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Warnings of a one-shot run: clients that sent most of their points, outlying hulls, refused
    hulls, clients that a model of their own serves better, and disagreeing classifiers."""
    disagreement = metrics.get("classifiers_disagree", 0)
    shares = [100 * value for name, value in metrics.items() if name.startswith("left_out_")]
    outliers = metrics.get("clients_odd", 0)
    refused = metrics.get("clients_refused", 0)
    fallen = metrics.get("clients_fallen", 0)
    exposed = metrics.get("clients_mostly_sent", 0)
    texts = {}
    if exposed:
        texts["sent"] = (
            f"{exposed} clients sent most of their training points, as bins: nearly all of so few"
            " points are vertices of hulls, which hide nothing of them; a larger hull.epsilon or a"
            " lower hull.cap sends fewer"
        )
    if outliers:
        texts["odd"] = (
            f"{outliers} of {metrics.get('clients_decoded', outliers)} clients are outliers: their"
            " hulls lie where other clients have other classes, as with shuffled labels, another"
            " embedding or made-up points; the sum does not say who they are, so let every site"
            " check its labels and its embedding"
        )
    if refused:
        texts["refused"] = (
            f"{refused} clients sent no convex hull and are left out; check the nodes' versions and"
            " who runs them"
        )
    if fallen:
        texts["fallen"] = (
            f"at {fallen} clients a model of the client's own points is far more accurate than the"
            " run's classifier; their logs say how much; let these sites check their labels and"
            " their embedding"
        )
    if disagreement >= DISAGREEMENT:
        texts["classifiers"] = (
            f"the kinds of classifiers disagree on {disagreement:.0%} of the points drawn within"
            f" hulls of left-out clients, and put {min(shares):.0f} to {max(shares):.0f}% of them"
            " in their group: hulls alone do not say for sure which kind is best; on test points"
            " (test-data), compare the values of hull.classifier"
        )
    return texts

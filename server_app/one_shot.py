"""A one-shot run: one secure sum, a model that the server learns from it, and the clients' scores
of the model. It has no rounds."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from curvfed.server_app.directory.checkpoint import identity, with_facts
from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.secure.masked_phases import check_session, groups, joined, masked_phase
from curvfed.server_app.secure.secure_sum import SumsOfRun, secure_sum
from curvfed.server_app.server_points import read_server_points
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.one_shot import Model, OneShotServer, ResidueServer, ServerPoints
from curvfed.strategies.base.statistics import Arrays, Statistics, total
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.hull.errors import HullError
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.messages import EVALUATE, HULLS, MEASURE, UNMASK, Header, Parts
from curvfed.strategies.wire.store import Store, StoreError
from curvfed.tasks.errors import KeyedError

log = logging.getLogger("curvfed")

PROTOCOL = 0
EVALUATION = 1
"""Round numbers in the messages. A resumed run drops the rows of the evaluation and asks for the
scores again."""

SUMMED = 1
"""Stamp of the stored sum. A resumed run reads it, so that clients reveal nothing twice."""

MIN_CLIENTS = 2
"""A sum over fewer clients hides nothing."""


class OneShotRun(Run):
    """A one-shot run."""

    half: OneShotServer

    def __init__(self, config: RunConfig, grid: Grid, directory: RunDirectory) -> None:
        super().__init__(config, grid, directory)
        self.sums = SumsOfRun(config, config.secure)
        self.metrics: dict[str, Any] = {}
        self.summed: list[int] = []
        self.learned = Model({})
        self._unmasked = 0
        self._store = Store(directory.path / "checkpoint" / "hulls")

    def run(self) -> None:
        """Connect the clients, sum, learn, score, store.

        Raises
        ------
        FederationError, ConfigError, RoundError
        """
        self.half = server_half(self.config, ())  # refuses keys before a client is asked
        self.connect()
        # An error in these points must come before the clients reveal anything.
        points = read_server_points(self.config, self.federation)
        summed = self._load_sum() if self.config.resume else None
        self.half = server_half(self.config, self.federation.facts.class_names)
        self.start_writing(PROTOCOL if summed else PROTOCOL - 1)
        if summed is None and (summed := self._sum()):
            self.clock()
            self._save_sum(summed)
            self.sinks.flush()
        if summed is not None:
            self._finish(summed, points)
        self.clock()

    def _sum(self) -> Statistics | None:
        """The clients' sum; None if the run stops before it."""
        self.half.check_classes(self.federation.descriptions.values())
        client_groups = self._groups(list(self.federation.nodes))
        for group in client_groups:
            check_session(self.header(HULLS, PROTOCOL), group, self.sums)
        if able := self._measure(client_groups):
            client_groups = self._groups(able)
        if text := self.half.describe(max(map(len, client_groups))):
            log.info("%d sums; %s", len(client_groups), text)
        if self.half.is_dry_run:
            log.info("dry run: nothing else is sent")
            return None
        if isinstance(self.half, ResidueServer):
            return self._sum_of_residues(self.half, client_groups)
        return self._sum_of_reals(client_groups[0])

    def _groups(self, clients: Sequence[int]) -> list[Sequence[int]]:
        """The clients of each sum."""
        if len(clients) < MIN_CLIENTS:
            raise ConfigError(
                f"{len(clients)} client can take part; a sum over fewer than {MIN_CLIENTS} hides"
                " nothing",
                key="too-few-clients",
            )
        return groups(clients, self.half.num_groups(len(clients)))

    def _measure(self, client_groups: Sequence[Sequence[int]]) -> list[int]:
        """Ask the clients what they would reveal; the clients that can take part, or none if this
        method asks for nothing."""
        parts: dict[int, Parts] = {}
        for group in client_groups:
            if question := self.half.question(len(group)):
                asked: Parts = {"clients": len(group), **question}
                parts |= dict.fromkeys(group, asked)
        if not parts:
            return []
        measured = self._ask(
            self.header(MEASURE, PROTOCOL),
            parts,
            lambda reply: self.half.check_measured(reply.metrics),
        )
        self.metrics |= self.half.measured([reply.metrics for reply in measured.replies.values()])
        able = sorted(measured.replies)
        needed = max(MIN_CLIENTS, self.config.min_replies)
        if len(able) < needed:
            raise RoundError(
                f"{len(able)} of {len(measured.seconds)} clients can take part, needed are {needed}"
                f" (min-replies, and 2 for a sum that hides anything). {measured.failure_summary}",
                key="too-few-replies",
            )
        return able

    def _sum_of_reals(self, clients: Sequence[int]) -> Statistics:
        """The sum of the clients' vectors."""
        vectors = self.half.vectors(len(clients))
        phase, summed = masked_phase(
            self._ask,
            self.header(HULLS, PROTOCOL),
            clients,
            self.sums,
            {"sums": np.zeros(vectors.length)},
            vectors.bound,
        )
        self.metrics |= {
            "clients_summed": len(phase.replies),
            "points_summed": summed.weight,
            "sum_error": summed.error,
        }
        return summed

    def _sum_of_residues(
        self, half: ResidueServer, client_groups: Sequence[Sequence[int]]
    ) -> Statistics:
        """The decoded sums of all groups. A group that fails is logged and left out for good.

        Raises
        ------
        RoundError
            If all groups fail.
        """
        header = self.header(HULLS, PROTOCOL)
        phases: list[Phase] = []
        decoded: list[Statistics] = []
        reasons = []
        seconds = 0.0
        for group in client_groups:
            vectors = half.vectors(len(group))
            try:
                phase, residues = secure_sum(
                    self._ask, header, group, vectors.modulus, vectors.length, self.sums
                )
                started = time.monotonic()
                statistics = half.decode(residues, len(group))
                seconds += time.monotonic() - started
            except (SecureSumError, HullError) as error:
                reasons.append(str(error))
                continue
            phases.append(phase)
            decoded.append(replace(statistics, clients=len(phase.replies)))
        if not decoded:
            raise RoundError("; ".join(reasons), key="no-sum")
        for reason in reasons:
            log.warning("a group of clients is left out: %s", reason)
        joined_sums = half.join(decoded, max(map(len, client_groups)))
        self.summed = sorted(joined(phases).replies)
        self.state.add(seconds_aggregation=seconds)
        self.metrics |= {
            **joined_sums.figures,
            "clients_summed": len(self.summed),
            "groups_left_out": len(reasons),
            "seconds_decoding": seconds,
            # A client that drops out after its vector is summed counts as a dropout too.
            "dropouts": len(self.federation.nodes) - self._unmasked,
        }
        return joined_sums

    def _save_sum(self, summed: Statistics) -> None:
        metadata = {
            "before": identity(self.federation),
            "metrics": self.metrics,
            "totals": self.state.totals,
            "weight": summed.weight,
            "summed": self.summed,
        }
        self._store.save(SUMMED, summed.arrays, metadata, durable=True)

    def _load_sum(self) -> Statistics | None:
        """The stored sum; None if the run ended before it."""
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
        self.summed = metadata["summed"]
        return Statistics(arrays, metadata["weight"])

    def _finish(self, summed: Statistics, points: ServerPoints) -> None:
        """Learn from the sum, score, write."""
        started = time.monotonic()
        try:
            self.learned = self.half.learn(summed)
        except ValueError as error:
            key = error.kind if isinstance(error, KeyedError) else "unlearnable"
            raise RoundError(str(error), key=key) from None
        self.state.add(seconds_aggregation=time.monotonic() - started)
        self.metrics |= self.learned.figures
        template = self.half.template(self.learned.arrays)
        if not template:
            self.warn()
            self._write_learned(())
            return
        sums = self._evaluate(template)
        evaluation = self.half.evaluate(self.learned, sums, points, self.summed)
        self.metrics |= evaluation.figures
        self.state.scored["last"] = [] if evaluation.accuracy is None else [evaluation.accuracy]
        self.is_scored = True
        self.warn()
        self._write_learned(evaluation.names)
        if evaluation.arrays:
            write_npz(self.directory.path / self.half.file_name, evaluation.arrays)

    def _evaluate(self, template: Arrays) -> Arrays:
        """Ask the clients for scores of the model, singly or as a secure sum; the sums of their
        arrays."""
        header = self.header(EVALUATE, EVALUATION)
        clients = list(self.federation.nodes)
        if not is_masked(self.config, EVALUATE):
            phase = self._ask(
                header,
                {partition: {} for partition in clients},
                lambda reply: self.half.check_evaluation(reply.arrays),
                template,
            )
            self.state.latest = {
                partition: dict(scores) for partition, scores in phase.scores.items() if scores
            }
            replies = [Statistics(dict(reply.arrays)) for reply in phase.replies.values()]
            return total([Statistics(template), *replies]).arrays
        phase, summed = masked_phase(self._ask, header, clients, self.sums, template)
        self.state.cohort = dict(phase.cohort or {})
        return {name: np.rint(array) for name, array in summed.arrays.items()}

    def _write_learned(self, names: Sequence[str]) -> None:
        """Write `model.safetensors`, with the names of the classifier's groups."""
        metadata = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {},
            "last_round": 0,
            "groups": list(names),
        }
        self.directory.write_model(self.learned.arrays, metadata)

    def extra_settings(self) -> dict[str, Any]:
        """Empty: every setting of this run is a key."""
        return {}

    def extra_metrics(self) -> dict[str, Any]:
        """Figures of the protocol and the model."""
        return self.metrics

    def _warnings(self) -> dict[str, str]:
        return super()._warnings() | self.half.warnings(self.metrics)

    def _ask(
        self,
        header: Header,
        parts: Mapping[int, Parts],
        check: Check | None = None,
        template: Arrays | None = None,
    ) -> Phase:
        """Run a phase and record it. With a template the clients get the model, once there is
        one."""
        started = time.monotonic()
        arrays = self.learned.arrays if template else {}
        requests = {
            partition: ClientRequest(arrays=arrays, parts=values, template=template or {})
            for partition, values in parts.items()
        }
        phase = self.send(header, requests, check)
        phase_name = header.phase
        seconds = time.monotonic() - started
        self._unmasked += len(phase.replies) * (phase_name == UNMASK)
        row = phase.row(self.federation) | {"seconds": seconds}
        self.record(phase, row, {})
        for cost in ("seconds", "bytes_up", "bytes_down"):
            name = f"{cost}_{phase_name}"
            self.metrics[name] = self.metrics.get(name, 0) + row[cost]
        log.info(
            "%s: %d of %d clients  %.2f s", phase_name, len(phase.replies), len(parts), seconds
        )
        return phase

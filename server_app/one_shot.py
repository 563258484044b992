"""A one-shot run, without rounds: one secure sum, a model that the server learns from it, and the
clients' scores of the model."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.serverapp import Grid

from curvfed.server_app.answer import Answer
from curvfed.server_app.cohort import OpenCohort, Question
from curvfed.server_app.directory.array_files import write_npz
from curvfed.server_app.directory.checkpoint import identity, with_facts
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.federation import Federation, read_test
from curvfed.server_app.global_model import test_figures
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.secure.masked_cohort import MaskedCohort
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.one_shot import (
    Evaluation,
    OneShotServer,
    ResidueServer,
    ServerPoints,
)
from curvfed.strategies.base.statistics import Arrays, Statistics, total
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.run_config import RunConfig, open_dataset
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import EVALUATE, HULLS, MEASURE, Parts
from curvfed.strategies.wire.store import Store, StoreError
from curvfed.tasks.errors import DataError, KeyedError

if TYPE_CHECKING:
    from curvfed.tasks.points import ClientPoints


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
        self.metrics: dict[str, Any] = {}
        self.summed: list[int] = []
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
        points = _read_server_points(self.config, self.federation)
        cohort = MaskedCohort(self)
        summed = self._load_sum() if self.config.resume else None
        self.half = server_half(self.config, self.federation.facts.class_names)
        self.start_writing(PROTOCOL if summed else PROTOCOL - 1)
        if summed is None and (summed := self._sum(cohort)):
            self.clock()
            self._save_sum(summed)
            self.sinks.flush()
        if summed is not None:
            self._finish(summed, points, cohort)
        self.clock()

    def _sum(self, cohort: MaskedCohort) -> Statistics | None:
        """The clients' sum; None if the run stops before it."""
        half = self.half
        half.check_classes(self.federation.descriptions.values())
        clients = list(self.federation.nodes)
        client_groups = self._groups(cohort, clients)
        for group in client_groups:
            cohort.check(HULLS, group)
        if able := self._measure(client_groups):
            clients = able
            client_groups = self._groups(cohort, able)
        if text := half.describe(max(map(len, client_groups))):
            number = len(client_groups)
            log.info("%d secure sum%s; %s", number, "" if number == 1 else "s", text)
        if half.is_dry_run:
            log.info("dry run: nothing else is sent")
            return None
        cohort.count_holders(clients, half.num_groups(len(clients)))
        question = Question(HULLS, PROTOCOL, clients, is_recorded=True)
        if isinstance(half, ResidueServer):
            question = replace(question, residues=half)
        else:
            vectors = half.vectors(len(clients))
            sums = {"sums": np.zeros(vectors.length)}
            question = replace(question, sums=sums, bound=vectors.bound)
        answer = cohort.ask(question)
        summed = answer.contributions[0]
        self.summed = sorted(answer.replies)
        self.metrics |= {**summed.figures, "clients_summed": len(self.summed)}
        if question.residues is None:
            self.metrics["sum_error"] = summed.error
            if not summed.noise:
                self.metrics["points_summed"] = summed.weight
        else:
            self.metrics["dropouts"] = len(self.federation.nodes) - len(self.summed)
            self.state.add(seconds_aggregation=summed.figures["seconds_decoding"])
        return summed

    def _groups(self, cohort: MaskedCohort, clients: Sequence[int]) -> list[tuple[int, ...]]:
        """The clients of each sum."""
        if len(clients) < MIN_CLIENTS:
            raise ConfigError(
                f"{len(clients)} client can take part; a sum over fewer than {MIN_CLIENTS} hides"
                " nothing",
                key="too-few-clients",
            )
        return cohort.groups(clients, self.half.num_groups(len(clients)))

    def _measure(self, client_groups: Sequence[Sequence[int]]) -> list[int]:
        """Ask the clients for figures of their contributions; return the clients that can take
        part, or none if this method asks for nothing."""
        parts: dict[int, Parts] = {}
        for group in client_groups:
            if values := self.half.question(len(group)):
                request: Parts = {"clients": len(group), **values}
                parts |= dict.fromkeys(group, request)
        if not parts:
            return []
        question = Question(
            MEASURE,
            PROTOCOL,
            sorted(parts),
            check=lambda measured: self.half.check_measured(measured.figures),
            parts=parts,
            is_recorded=True,
        )
        answer = OpenCohort(self).ask(question)
        measured = answer.contributions
        self.metrics |= self.half.measured([client.figures for client in measured.values()])
        needed = max(MIN_CLIENTS, self.config.min_replies)
        if len(measured) < needed:
            raise RoundError(
                f"{len(measured)} of {len(parts)} clients can take part, needed are {needed}"
                f" (min-replies, and 2 for a sum that hides anything)."
                f" {answer.failure_summary}",
                key="too-few-replies",
            )
        return sorted(measured)

    def _save_sum(self, summed: Statistics) -> None:
        metadata = {
            "before": identity(self.federation),
            "metrics": self.metrics,
            "totals": self.state.totals,
            "weight": summed.weight,
            "noise": summed.noise,
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
        self.note_data()
        self.metrics = metadata["metrics"]
        self.state.totals = metadata["totals"]
        self.summed = metadata["summed"]
        bound = self.metrics.get("sum_error", 0.0)
        return Statistics(arrays, metadata["weight"], error=bound, noise=metadata["noise"])

    def _finish(self, summed: Statistics, points: ServerPoints, cohort: MaskedCohort) -> None:
        """Learn from the sum, score, write."""
        started = time.monotonic()
        try:
            learned = self.half.learn(summed)
        except ValueError as error:
            key = error.kind if isinstance(error, KeyedError) else "unlearnable"
            raise RoundError(str(error), key=key) from None
        self.state.add(seconds_aggregation=time.monotonic() - started)
        self.metrics |= learned.figures
        self.model = Average(learned.arrays)
        evaluation = Evaluation()
        if template := self.half.template(learned.arrays):
            is_private = self.config.guard.is_private
            sums = template if is_private else self._evaluate(template, cohort)
            evaluation = self.half.evaluate(learned, sums, points, self.summed)
            self.metrics |= evaluation.figures
            trivial = test_figures(points.test.labels) if points.test is not None else {}
            self.metrics |= trivial
            if evaluation.accuracy is not None:
                self.state.scored = {"last": [evaluation.accuracy], "figures": trivial}
            self.is_scored = True
        self.warn()
        metadata = {
            "method": self.config.method,
            "metric": self.federation.metric,
            "facts": asdict(self.federation.facts),
            "stamps": {},
            "last_round": 0,
            "groups": list(evaluation.names),
        }
        self.directory.write_model(learned.arrays, metadata)
        if evaluation.arrays:
            write_npz(self.directory.path / self.half.file_name, evaluation.arrays)

    def _evaluate(self, template: Arrays, cohort: MaskedCohort) -> Arrays:
        """Ask the clients for scores of the model, singly or as a secure sum; the sums of their
        arrays."""
        described = self.federation.descriptions
        # A real node scores the model of a sum that it is in.
        scoring = [p for p in described if p in self.summed or not described[p].group]
        question = Question(
            EVALUATE,
            EVALUATION,
            scoring,
            template,
            check=lambda scored: self.half.check_evaluation(scored.arrays),
            is_recorded=True,
        )
        if is_masked(self.config, EVALUATE):
            answer = cohort.ask(question)
            self.state.cohort = dict(answer.cohort or {})
            (summed,) = answer.contributions.values()
            return {name: np.rint(array) for name, array in summed.arrays.items()}
        answer = OpenCohort(self).ask(question)
        scores = answer.scores.items()
        self.state.latest = {partition: dict(scored) for partition, scored in scores if scored}
        return total([Statistics(template), *answer.contributions.values()]).arrays

    def extra_settings(self) -> dict[str, Any]:
        """Empty: every setting of this run is a key."""
        return {}

    def extra_metrics(self) -> dict[str, Any]:
        """Figures of the protocol and the model."""
        return self.metrics

    def warnings(self) -> dict[str, str]:
        """With those of the method."""
        return super().warnings() | self.half.warnings(self.metrics)

    def record(
        self,
        answer: Answer,
        row: Mapping[str, Any],
        weights: Mapping[int, float] | None = None,
        in_round: bool = True,
    ) -> None:
        """Record a phase, and add its costs to the figures of the run."""
        super().record(answer, row, weights, in_round)
        name = answer.header.phase
        for cost in ("seconds", "bytes_up", "bytes_down"):
            figure = f"{cost}_{name}"
            self.metrics[figure] = self.metrics.get(figure, 0) + row[cost]
        log.info(
            "%s: %d of %d clients  %.2f s",
            name,
            len(answer.replies),
            len(answer.seconds),
            row["seconds"],
        )


def _read_server_points(config: RunConfig, federation: Federation) -> ServerPoints:
    """The server's test points, and of a public data set all points.

    Raises
    ------
    ConfigError
        If the test data or the public data set cannot be read.
    """
    described = federation.descriptions
    test = read_test(config, federation)
    if not federation.shares_public_data:
        return ServerPoints(test)
    dataset: Any = open_dataset(config, federation.facts.task)
    try:
        parts = {
            partition: dataset.part(partition, description.num_partitions)
            for partition, description in described.items()
        }
        pooled = dataset.pooled()
    except DataError as error:
        raise ConfigError(str(error), key="data") from None
    same = {
        partition: points
        for partition, points in parts.items()
        if points.digest == described[partition].digest
    }
    if changed := ", ".join(str(partition) for partition in parts if partition not in same):
        log.warning(
            "the server's points differ from those of partition-id %s: they are not compared",
            changed,
        )
    if not same:
        return ServerPoints(test)
    return ServerPoints(_renumbered(test, pooled.class_names) if test else None, pooled, same)


def _renumbered(test: "ClientPoints", names: tuple[str, ...]) -> "ClientPoints":
    """Test points with the clients' class numbers; classes that no client has come last."""
    all_names = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([all_names.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=all_names)

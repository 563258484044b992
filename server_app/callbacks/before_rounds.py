"""The phases of secure sums before the first round: the count of holders, and the sum of a one-shot
method, from which the server learns its model. Such a method has no rounds."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from curvfed.server_app.answer import Question
from curvfed.server_app.callbacks import Callback, Round
from curvfed.server_app.cohort import Cohort, OpenCohort
from curvfed.server_app.directory.array_files import write_npz
from curvfed.server_app.global_model import read_server_points, test_figures
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.secure.groups import Group
from curvfed.server_app.secure.masked_cohort import MaskedCohort
from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.figure_values import native
from curvfed.strategies.base.one_shot import Evaluation, Model, ResidueServer
from curvfed.strategies.base.statistics import Arrays, Statistics, total
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.config.one_shot import phase_of, server_half
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.exchange import sample
from curvfed.strategies.wire.messages import EVALUATE, MEASURE, TRAIN, Parts
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import KeyedError

EVALUATION = 1
"""Round number of the evaluation of a one-shot model; its sum has 0. A resumed run drops the rows
of the evaluation and asks for the scores again."""

MIN_CLIENTS = 2
"""A sum over fewer clients hides nothing."""


def first_phase(run: Run, cohort: Cohort) -> Callback:
    """The first phase of a run under secure sums; arguments as those of `OneSum`."""
    assert isinstance(cohort, MaskedCohort)
    if run.method.is_one_shot:
        return OneSum(run, cohort)
    return HolderCount(run, cohort)


class HolderCount(Callback):
    """Counts the members of each group with each class or entity, in a new run that trains under
    secure sums.

    Parameters
    ----------
    run : Run
    cohort : MaskedCohort

    Raises
    ------
    ConfigError
        If no secure sum over the clients is possible.
    """

    def __init__(self, run: Run, cohort: MaskedCohort) -> None:
        super().__init__(run)
        self._cohort = cohort
        config = run.config
        nodes = list(run.federation.nodes)
        cohort.groups.check(TRAIN, sample(nodes, config.fraction_train, config.seed, 1))
        cohort.groups.check(EVALUATE, nodes)

    def begin(self) -> None:
        """See `MaskedCohort.count_holders`."""
        if self.run.stored_round < 0:
            self._cohort.count_holders(list(self.run.federation.nodes), 0)


class ModelOfSum(Aggregation):
    """The model that the server half of a one-shot method learns from the clients' sum. A
    checkpoint has the sum, so that clients reveal nothing twice.

    Parameters
    ----------
    run : Run

    Attributes
    ----------
    half : OneShotServer
    sum : dict of str to array
        The sum; empty before it.
    learned : Model
    """

    def __init__(self, run: Run) -> None:
        self.half = server_half(run.config, run.federation.facts.class_names)
        super().__init__({}, config=run.config)

    def begin(self, arrays: Arrays) -> None:
        """Start without a sum and without a model."""
        self.sum: Arrays = {}
        self.learned = Model(arrays)

    def sent_to(self, partition: int) -> Arrays:
        """The learned arrays, the same for every client."""
        return self.learned.arrays

    def aggregate(self, replies: Replies) -> None:
        """Learn from the sum, the only reply."""
        (summed,) = replies.values()
        self.learned = self.half.learn(summed)

    def state(self) -> Arrays:
        """The sum, until the model is learned from it; then the model."""
        return self.learned.arrays or self.sum

    def load(self, state: Arrays) -> None:
        """Continue with a stored sum."""
        self.sum = state


class OneSum(Callback):
    """Asks the clients of a one-shot run for their sum, learns from it, and evaluates the model.

    Parameters
    ----------
    run : Run
    cohort : MaskedCohort
    """

    def __init__(self, run: Run, cohort: MaskedCohort) -> None:
        super().__init__(run)
        assert isinstance(run.model, ModelOfSum)
        self._model = run.model
        self._half = run.model.half
        self._phase = phase_of(run.config)
        self._cohort = cohort
        # An error in these points must come before the clients reveal anything.
        self._points = read_server_points(run.config, run.federation)
        self._drawn: Arrays = {}
        run.has_scores = False

    def begin(self) -> None:
        """Ask for the sum and store it, unless the checkpoint has it, and learn from it."""
        run = self.run
        if run.stored_round < 0:
            clients = self._clients()
            if self._half.is_dry_run:
                log.info("dry run: nothing else is sent")
                run.is_dry = True
                run.clock()
                return
            self._ask(clients)
            run.clock()
            run.store()
        parts = run.state.summed
        summed = Statistics(
            self._model.sum, parts["weight"], error=parts["error"], noise=parts["noise"]
        )
        self._half.num_shared = run.state.num_shared()
        started = time.monotonic()
        try:
            self._model.aggregate({0: summed})
        except ValueError as error:
            key = error.kind if isinstance(error, KeyedError) else "unlearnable"
            raise RoundError(str(error), key=key) from None
        run.state.add(seconds_aggregation=time.monotonic() - started)
        self._note(self._model.learned.figures)

    def after_round(self, completed: Round) -> None:
        """Evaluate the model, if it predicts anything."""
        run = self.run
        learned = self._model.learned
        template = self._half.template(learned.arrays)
        run.has_scores = bool(template)
        evaluation = Evaluation()
        if template:
            sums = template if run.config.guard.is_private else self._votes(template)
            clients = run.state.summed["clients"]
            evaluation = self._half.evaluate(learned, sums, self._points, clients)
            of_test = {} if self._points.test is None else test_figures(self._points.test.labels)
            self._note({**evaluation.figures, **of_test})
            if evaluation.accuracy is not None:
                run.state.scored = {"last": [evaluation.accuracy], "figures": of_test}
        run.model_notes = {"groups": list(evaluation.names)}
        self._drawn = evaluation.arrays

    def end(self) -> None:
        """Write the arrays that the report draws."""
        if self._drawn:
            write_npz(self.run.directory.path / self._half.file_name, self._drawn)

    def _clients(self) -> list[int]:
        """The clients that can take part in the sum. Some methods ask them for figures of their
        contributions."""
        half = self._half
        half.check_classes(self.run.federation.descriptions.values())
        clients = list(self.run.federation.nodes)
        groups = self._groups(clients)
        for group in groups:
            self._cohort.groups.check(self._phase, group)
        parts: dict[int, Parts] = {}
        for group in groups:
            if values := half.question(len(group)):
                request: Parts = {"clients": len(group), **values}
                parts |= dict.fromkeys(group, request)
        if parts:
            clients = self._measured(parts)
            groups = self._groups(clients)
        if text := half.describe(max(map(len, groups))):
            log.info("%s; %s", amount(len(groups), "secure sum"), text)
        return clients

    def _groups(self, clients: Sequence[int]) -> list[Group]:
        """The clients of each sum."""
        if len(clients) < MIN_CLIENTS:
            raise ConfigError(
                f"{len(clients)} client can take part; a sum over fewer than {MIN_CLIENTS} hides"
                " nothing",
                key="too-few-clients",
            )
        return self._cohort.groups.of(clients, self._half.num_groups(len(clients)))

    def _measured(self, parts: Mapping[int, Parts]) -> list[int]:
        """The clients that answer with figures of their contributions, ascending."""
        run = self.run
        question = Question(
            MEASURE,
            0,
            sorted(parts),
            check=lambda measured: self._half.check_measured(measured.figures),
            parts=parts,
            is_recorded=True,
        )
        answer = OpenCohort(run).ask(question)
        measured = answer.contributions
        self._note(self._half.measured([client.figures for client in measured.values()]))
        needed = max(MIN_CLIENTS, run.config.min_replies)
        if len(measured) < needed:
            raise RoundError(
                f"{len(measured)} of {len(parts)} clients can take part, needed are {needed}"
                f" (min-replies, and 2 for a sum that hides anything)."
                f" {answer.failure_summary(run.federation)}",
                key="too-few-replies",
            )
        return sorted(measured)

    def _ask(self, clients: Sequence[int]) -> None:
        """Sum the clients' vectors."""
        run = self.run
        half = self._half
        self._cohort.count_holders(clients, half.num_groups(len(clients)))
        question = Question(self._phase, 0, clients, is_recorded=True)
        if isinstance(half, ResidueServer):
            question = replace(question, residues=half)
        else:
            vectors = half.vectors(len(clients))
            sums = {"sums": np.zeros(vectors.length)}
            question = replace(question, sums=sums, bound=vectors.bound)
        answer = self._cohort.ask(question)
        (summed,) = answer.contributions.values()
        figures = {**summed.figures, "clients_summed": len(answer.replies)}
        if question.residues is None:
            figures["sum_error"] = summed.error
            if not summed.noise:
                figures["points_summed"] = summed.weight
        else:
            figures["dropouts"] = len(run.federation.nodes) - len(answer.replies)
            run.state.add(seconds_aggregation=summed.figures["seconds_decoding"])
        self._note(figures)
        self._model.sum = summed.arrays
        run.state.summed = {
            "clients": sorted(answer.replies),
            "weight": summed.weight,
            "error": summed.error,
            "noise": summed.noise,
        }

    def _votes(self, template: Arrays) -> Arrays:
        """The sums of the clients' arrays about the model; their scores are recorded."""
        run = self.run
        described = run.federation.descriptions
        run.forget_scores(described)
        # A real node scores the model of a sum that it is in.
        summed = run.state.summed["clients"]
        scoring = [p for p in described if p in summed or not described[p].group]
        question = Question(
            EVALUATE,
            EVALUATION,
            scoring,
            template,
            check=lambda scored: self._half.check_evaluation(scored.arrays),
            is_recorded=True,
        )
        if not is_masked(run.config, EVALUATE):
            answer = OpenCohort(run).ask(question)
            return total([Statistics(template), *answer.contributions.values()]).arrays
        answer = self._cohort.ask(question)
        run.state.cohort = dict(answer.cohort or {})
        (votes,) = answer.contributions.values()
        return {name: np.rint(array) for name, array in votes.arrays.items()}

    def _note(self, figures: Mapping[str, Any]) -> None:
        """Add figures to the run, and the warnings that follow from them."""
        self.run.state.figures |= native(figures)
        self.run.notes |= self._half.warnings(self.run.state.figures)

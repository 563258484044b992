"""The round loop: clients are selected, train, and send their contributions; the server combines
them; callbacks do the rest, such as evaluation. `start` connects the clients before it, and gives
it a model."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from curvfed.server_app.answer import Answer, Question
from curvfed.server_app.callbacks import Callback, Round, by_step
from curvfed.server_app.callbacks.choice import callbacks_of
from curvfed.server_app.cohort import Cohort, OpenCohort
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.start import connect_clients, set_starting_model
from curvfed.strategies.base.aggregation import AggregationError, Replies
from curvfed.strategies.base.figure_values import native
from curvfed.strategies.base.statistics import not_finite
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError, check_arrays
from curvfed.strategies.wire.exchange import sample
from curvfed.strategies.wire.messages import TRAIN


def run_rounds(run: Run) -> None:
    """Connect the clients, train for the configured rounds, and store the model.

    Raises
    ------
    FederationError, RoundError, ConfigError
    """
    connect_clients(run)
    set_starting_model(run)
    cohort = _cohort(run)
    callbacks = by_step(callbacks_of(run, cohort))
    run.start_writing()
    for callback in callbacks["begin"]:
        callback.begin()
    if run.is_dry:  # a one-shot method's dry run ends before its sum
        return
    if run.last_round == 0:  # a one-shot method, or num-rounds = 0: the start alone is scored
        for callback in callbacks["after_round"]:
            callback.after_round(Round(0, [], None, {}))
    while run.state.round < run.last_round:
        _round(run, cohort, callbacks)
    run.expects_no_score = True
    run.warn()
    run.clock()
    run.write_model()
    for callback in callbacks["end"]:
        callback.end()


def _cohort(run: Run) -> Cohort:
    """The clients in the open, or under secure sums."""
    if not run.config.is_masked:
        return OpenCohort(run)
    from curvfed.server_app.secure.masked_cohort import MaskedCohort

    return MaskedCohort(run)


def _round(run: Run, cohort: Cohort, callbacks: Mapping[str, Sequence[Callback]]) -> None:
    started = time.monotonic()
    number = run.state.round + 1
    run.current_round = number
    for callback in callbacks["before_round"]:
        callback.before_round(number)
    config = run.config
    clients = sample(list(run.federation.nodes), config.fraction_train, config.seed, number)
    answer = cohort.ask(Question(TRAIN, number, clients))
    aggregating = time.monotonic()
    _aggregate(run, number, answer, callbacks["contributions"])
    row = run.model.round_figures | answer.row(run.federation)
    row["seconds_aggregation"] = time.monotonic() - aggregating
    for callback in callbacks["figures"]:
        row = {**native(callback.figures(number, answer)), **row}
    row["seconds"] = time.monotonic() - started
    run.record(answer, row, run.model.weights)
    completed = Round(number, clients, answer, row)
    for callback in callbacks["after_round"]:
        callback.after_round(completed)
    run.state.round = number
    run.clock()
    run.store()  # it resumes after this round
    for callback in callbacks["stored"]:
        callback.stored(completed)


def _aggregate(run: Run, number: int, answer: Answer, callbacks: Sequence[Callback]) -> None:
    """Combine the contributions of a round into the model.

    Raises
    ------
    RoundError
        If the method cannot combine them, or the result is not finite, or has other
        parameters than the global model.
    """
    model = run.model
    contributions: Replies = answer.contributions
    # The clients of a masked cohort weigh their own summands.
    if run.config.weights == "uniform" and not run.config.is_masked:
        contributions = {
            partition: replace(contribution, weight=min(contribution.weight, 1))
            for partition, contribution in contributions.items()
        }
    model.round_figures = {}
    model.weights = {}
    if not any(contribution.arrays for contribution in contributions.values()):
        return
    if not any(contribution.weight for contribution in contributions.values()):
        log.warning("round %d: no client that answered has training data", number)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        for callback in callbacks:
            contributions = callback.contributions(number, contributions)
        expected = dict(model.global_model()) if model.is_global else {}
        try:
            model.aggregate(contributions)
            if model.is_global:
                check_arrays(model.global_model(), expected)
        except AggregationError as error:
            raise RoundError(f"round {number}: {error}", key="aggregation") from None
        except MessageError as error:
            place = f"{type(model).__name__}.aggregate"
            key = error.key.rpartition(".")[2]
            raise RoundError(f"round {number}, {place}: {error}", key=key) from None
    model.figures = native(model.figures)
    model.round_figures = native(model.round_figures)
    if reason := not_finite(model.state()):
        raise RoundError(f"round {number}: {reason} after the aggregation", key="not-finite")

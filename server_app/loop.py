"""The round loop: clients are selected, train, and send their contributions; the server combines
them; callbacks do the rest, such as evaluation and checkpoints. And the model that the loop starts
from: seeded, stored in a file, or that of a checkpoint."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from curvfed.server_app.callbacks import Callback, Round, by_step
from curvfed.server_app.callbacks.choice import callbacks_of
from curvfed.server_app.client_history import note_lengths
from curvfed.server_app.cohort import Cohort, OpenCohort, Question
from curvfed.server_app.directory import checkpoint as checkpoints
from curvfed.server_app.run import RoundError, Run
from curvfed.strategies.base.aggregation import Aggregation, AggregationError
from curvfed.strategies.base.deviations import update_bound, update_lengths, within_bound
from curvfed.strategies.base.further_state import resume
from curvfed.strategies.base.statistics import HEAD, Arrays, not_finite
from curvfed.strategies.config.build_method import (
    fixed_parameters,
    initial_aggregation,
    wire_precision,
)
from curvfed.strategies.config.masked import start_digest
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.exchange import sample
from curvfed.strategies.wire.messages import EVALUATE, TRAIN
from curvfed.tasks.stored_files import check_whole, is_whole, metadata_of


def run_rounds(run: Run) -> None:
    """Connect the clients, train for the configured rounds, and store the model.

    Raises
    ------
    FederationError, RoundError, ConfigError
    """
    run.connect()
    stored_round = set_starting_model(run)
    cohort = _cohort(run)
    callbacks = by_step(callbacks_of(run, cohort))
    run.start_writing(stored_round)
    if stored_round < 0:
        cohort.begin()
    for callback in callbacks["begin"]:
        callback.begin()
    if run.last_round == 0:
        for callback in callbacks["after_round"]:
            callback.after_round(Round(0, [], None, {}))
    while run.state.round < run.last_round:
        _round(run, cohort, callbacks)
    run.is_scored = True
    run.warn()
    run.clock()
    run.write_model()
    for callback in callbacks["end"]:
        callback.end()


def _cohort(run: Run) -> Cohort:
    """The clients in the open, or under secure sums.

    Raises
    ------
    ConfigError
        If no secure sum over the clients is possible.
    """
    if not run.config.is_masked:
        return OpenCohort(run)
    from curvfed.server_app.secure.masked_cohort import MaskedCohort

    cohort = MaskedCohort(run)
    nodes = list(run.federation.nodes)
    cohort.check(TRAIN, sample(nodes, run.config.fraction_train, run.config.seed, 1))
    cohort.check(EVALUATE, nodes)
    return cohort


def _round(run: Run, cohort: Cohort, callbacks: Mapping[str, Sequence[Callback]]) -> None:
    started = time.monotonic()
    number = run.state.round + 1
    run.current_round = number
    if run.calibrated or run.state.scored:
        run.forget_calibration()  # training goes on from the classifier before it, or from it
    config = run.config
    clients = sample(list(run.federation.nodes), config.fraction_train, config.seed, number)
    answer = cohort.ask(Question(TRAIN, number, clients))
    aggregating = time.monotonic()
    contributions = answer.contributions
    if config.weights == "uniform":  # under a secure sum the clients have done it
        contributions = {
            partition: replace(contribution, weight=min(contribution.weight, 1))
            for partition, contribution in contributions.items()
        }
    if any(contribution.arrays for contribution in contributions.values()):
        if not any(contribution.weight for contribution in contributions.values()):
            log.warning("round %d: no client that answered has training data", number)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            lengths = update_lengths(run.model, contributions)
            note_lengths(run.state, number, lengths, update_bound(run.model))
            try:
                run.model.aggregate(within_bound(run.model, contributions, lengths))
            except AggregationError as error:
                raise RoundError(f"round {number}: {error}", key="aggregation") from None
        if reason := not_finite(run.model.state()):
            raise RoundError(f"round {number}: {reason} after the aggregation", key="not-finite")
    row = run.model.round_figures | answer.row(run.federation)
    row["seconds_aggregation"] = time.monotonic() - aggregating
    for callback in callbacks["figures"]:
        row = {**callback.figures(number, answer), **row}
    row["seconds"] = time.monotonic() - started
    run.record(answer, row, run.model.weights)
    completed = Round(number, clients, answer, row)
    for callback in callbacks["after_round"]:
        callback.after_round(completed)
    # The checkpoint is among the callbacks that follow: a run resumes after a round that it stores.
    run.state.round = number
    run.clock()
    for callback in callbacks["stored"]:
        callback.stored(completed)


def set_starting_model(run: Run) -> int:
    """Give the run its model and its fixed parameters, and with `resume` its stored state.

    Returns
    -------
    int
        The round of the checkpoint; -1 without one.

    Raises
    ------
    ConfigError
        If the checkpoint, or the file of `init-from`, cannot be used.
    """
    config = run.config
    run.precision = wire_precision(config, run.federation.facts)
    run.model = _seeded(run)
    stored_round = _resume(run) if config.resume else -1
    if config.init_from and stored_round < 0:
        facts = run.federation.facts
        start = partial(warm_start, config.init_from, class_names=facts.class_names)
        run.model = initial_aggregation(config, facts, list(run.federation.nodes), start)
        _log_digests(run)
    run.fixed = run.fixed or fixed_parameters(config, run.federation.facts)
    return stored_round


def _seeded(run: Run) -> Aggregation:
    return initial_aggregation(run.config, run.federation.facts, list(run.federation.nodes))


def _log_digests(run: Run) -> None:
    """Log the digests by which the nodes' policies can allow the start."""
    sent = [run.model.sent_to(partition) for partition in run.federation.nodes]
    starts = {id(arrays): arrays for arrays in sent}.values()
    precision = run.precision
    arriving = [decode_arrays(encode_arrays(arrays, precision), precision) for arrays in starts]
    digests = sorted({start_digest(arrays) for arrays in arriving})
    log.info("real nodes need [runs] starts = %s in their policies", json.dumps(digests))


def _resume(run: Run) -> int:
    """Load the checkpoint; returns its round, or -1 without one."""
    stored = checkpoints.load(run.directory.checkpoints, run.federation)
    if stored is None:
        log.info("no checkpoint yet: starting anew")
        return -1
    run.state, checkpoint, run.federation = stored
    run.note_data()
    run.model = _seeded(run)
    try:
        resume(run.model, checkpoint.model)
    except AggregationError as error:
        raise ConfigError(f"resume = true: {error}", key="aggregation-state") from None
    run.fixed = checkpoint.fixed
    run.calibrated = checkpoint.calibrated
    if not run.config.may_stop_early:
        run.state.last_round = 0
    # Clients that did not reconnect no longer count in the figures.
    run.state.latest = {
        partition: scores
        for partition, scores in run.state.latest.items()
        if partition in run.federation.nodes
    }
    log.info("resuming after round %d", run.state.round)
    return run.state.round


def warm_start(
    path: str, shared: Arrays, stays: frozenset[str], class_names: tuple[str, ...]
) -> Arrays:
    """The shared parameters, replaced by those in the file.

    Parameters
    ----------
    path : str
        `init-from`: a file in safetensors.
    shared : dict of str to array
        The seeded start.
    stays : frozenset of str
        Names of the parameters that the file may have and that are ignored: personal and fixed
        ones.
    class_names : tuple of str
        The classes of this run; a run with other classes has another classifier.

    Raises
    ------
    ConfigError
        If the file cannot be read, or has a parameter that is not in the model, has another shape,
        or is not finite.
    """
    try:
        data = Path(path).expanduser().read_bytes()
        if is_whole(data) is not None:  # other programs' files have no digest
            check_whole(data)
        stored = checkpoints.Checkpoint.of(dict(sorted(load(data).items()))).model
        metadata = json.loads(metadata_of(data).get("curvfed", "{}"))
        trained_on = tuple(metadata.get("facts", {}).get("class_names", class_names))
        parameters = metadata.get("parameters", stored)  # without the rest of a server's state
        stored = {name: stored[name] for name in stored if name in parameters}
    except (OSError, SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f'init-from = "{path}": allowed is a file in safetensors, at the server'
            f" ({type(error).__name__}: {error})",
            key="unreadable",
        ) from None
    differences = [
        f"{name} (not in the model)" for name in sorted(stored.keys() - shared.keys() - stays)
    ]
    with np.errstate(over="ignore"):
        loaded = {
            name: array.astype(shared[name].dtype)
            for name, array in stored.items()
            if name in shared
        }
    for name, array in loaded.items():
        if array.shape != shared[name].shape:
            differences.append(
                f"{name} (is {list(array.shape)}, the model's {list(shared[name].shape)})"
            )
        elif not np.isfinite(array).all():
            differences.append(f"{name} (has values that are not finite)")
    if trained_on != class_names and any(name.startswith(HEAD) for name in loaded):
        differences.append(
            f"{HEAD}* (is for the classes {', '.join(trained_on)}; this run has"
            f" {', '.join(class_names)})"
        )
    if differences or not loaded:
        text = ", ".join(differences) or "it has none of them"
        raise ConfigError(
            f'init-from = "{path}" differs from what this run shares: {text}; the run shares '
            f"{', '.join(shared) or 'nothing'}",
            key="other-parameters",
        )
    fresh = ", ".join(sorted(shared.keys() - loaded.keys()))
    log.info(
        "%d parameters start from %s%s", len(loaded), path, f"; fresh: {fresh}" if fresh else ""
    )
    return {name: loaded.get(name, array) for name, array in shared.items()}

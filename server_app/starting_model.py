"""The model that a run starts from: seeded, stored in a file, or that of its checkpoint."""

import json
import logging
from functools import partial

from curvfed.server_app.directory import checkpoint as checkpoints
from curvfed.server_app.run import Run
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.config.basis import start_digest
from curvfed.strategies.config.build_method import initial_aggregation, wire_precision
from curvfed.strategies.config.model_spec import fixed_parameters
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays

log = logging.getLogger("curvfed")


def set_starting_model(run: Run) -> int:
    """Give the run its model and its fixed parameters, and with `resume` its stored state.

    Returns
    -------
    int
        The round of the checkpoint; -1 if there is none.

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
        run.model = _from_file(run)
        _log_digests(run)
    run.fixed = run.fixed or fixed_parameters(config, run.federation.facts)
    return stored_round


def _seeded(run: Run) -> Aggregation:
    return initial_aggregation(run.config, run.federation.facts, list(run.federation.nodes))


def _from_file(run: Run) -> Aggregation:
    from curvfed.server_app.warm_start import warm_start

    facts = run.federation.facts
    start = partial(warm_start, run.config.init_from, class_names=facts.class_names)
    return initial_aggregation(run.config, facts, list(run.federation.nodes), start)


def _log_digests(run: Run) -> None:
    """Log the digests by which the nodes' policies can allow the start."""
    sent = [run.model.sent_to(partition) for partition in run.federation.nodes]
    starts = {id(arrays): arrays for arrays in sent}.values()
    precision = run.precision
    arriving = [decode_arrays(encode_arrays(arrays, precision), precision) for arrays in starts]
    digests = sorted({start_digest(arrays) for arrays in arriving})
    log.info("real nodes need [runs] starts = %s in their policies", json.dumps(digests))


def _resume(run: Run) -> int:
    """Load the checkpoint; returns its round, or -1 if there is none."""
    stored = checkpoints.load(run.directory.checkpoints, run.federation)
    if stored is None:
        log.info("no checkpoint yet: starting anew")
        return -1
    run.state, checkpoint, run.federation = stored
    run.model = _seeded(run)
    run.model.load(checkpoint.model)
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

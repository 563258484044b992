"""The start of a run: its clients are connected, and it gets the model that its first round starts
from: seeded, stored in a file, or that of a checkpoint."""

import json
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from curvfed.server_app.directory import checkpoint as checkpoints
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.federation import connect
from curvfed.server_app.run import Run
from curvfed.strategies.base.aggregation import Aggregation, AggregationError
from curvfed.strategies.base.further_state import resume
from curvfed.strategies.base.statistics import HEAD, Arrays
from curvfed.strategies.config.build_method import (
    fixed_parameters,
    initial_aggregation,
    model_spec,
    wire_precision,
)
from curvfed.strategies.config.masked import start_digest
from curvfed.strategies.config.run_config import flatten, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.tasks.stored_files import check_whole, is_whole, metadata_of


def connect_clients(run: Run) -> None:
    """Ask the clients for their data's descriptions, and resolve the keys without a value."""
    # After a restart of the SuperLink the clients of the earlier run reconnect one by one.
    stored = RunFiles(run.directory.path).clients if run.config.resume else []
    expected = [client["partition"] for client in stored]
    run.federation = connect(run.grid, run.config, run.directory.name, expected)
    if not any(
        description.partition_digest for description in run.federation.descriptions.values()
    ):
        run.config = run.directory.note_own_data()
    before = flatten(run.config)
    run.config = resolve_defaults(run.config, run.federation.facts.task)
    run.note_data()
    chosen = flatten(run.config)
    if run.method.has_network:
        chosen["model"] = model_spec(run.config, run.federation.facts).kind
    run.settings = {key: value for key, value in chosen.items() if value != before[key]}
    guard = run.config.guard
    if promise := guard.promise:
        log.info("%s: %s", guard.words or guard.table, promise)
    run.warn()


def set_starting_model(run: Run) -> None:
    """Give the run its model and its fixed parameters, and with `resume` its stored state.

    Raises
    ------
    ConfigError
        If the checkpoint, or the file of `init-from`, cannot be used, or an earlier version wrote
        the checkpoint of a one-shot run.
    """
    config = run.config
    if run.method.has_network:
        run.precision = wire_precision(config, run.federation.facts)
    run.model = _seeded(run)
    if config.resume:
        _resume(run)
    if config.init_from and run.stored_round < 0:
        facts = run.federation.facts
        start = partial(warm_start, config.init_from, class_names=facts.class_names)
        run.model = initial_aggregation(config, facts, list(run.federation.nodes), start)
        _log_digests(run)
    run.fixed = run.fixed or fixed_parameters(config, run.federation.facts)


def _seeded(run: Run) -> Aggregation:
    if run.method.is_one_shot:
        from curvfed.server_app.callbacks.before_rounds import ModelOfSum

        return ModelOfSum(run)
    return initial_aggregation(run.config, run.federation.facts, list(run.federation.nodes))


def _log_digests(run: Run) -> None:
    """Log the digests by which the nodes' policies can allow the start."""
    sent = [run.model.sent_to(partition) for partition in run.federation.nodes]
    starts = {id(arrays): arrays for arrays in sent}.values()
    precision = run.precision
    arriving = [decode_arrays(encode_arrays(arrays, precision), precision) for arrays in starts]
    digests = sorted({start_digest(arrays) for arrays in arriving})
    log.info("real nodes need [runs] starts = %s in their policies", json.dumps(digests))


def _resume(run: Run) -> None:
    """Load the checkpoint, if there is one."""
    stored = checkpoints.load(run.directory.checkpoints, run.federation)
    if stored is None:
        if any((run.directory.path / "checkpoint" / "hulls").glob("*")):
            raise ConfigError(
                f"resume = true: {run.directory.path} has its sum in checkpoint/hulls, as an"
                " earlier version wrote it; allowed is to resume it with that version, or a new"
                " run-name: the clients would reveal their points a second time",
                key="earlier-checkpoint",
            )
        log.info("no checkpoint yet: starting anew")
        return
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
    run.stored_round = run.state.round
    place = f"after round {run.stored_round}" if run.num_rounds else "with the stored sum"
    log.info("resuming %s", place)


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

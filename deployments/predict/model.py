"""The trained model of a run: the global one, or a client's own."""

from pathlib import Path

import numpy as np
from torch import nn

from curvfed.client_app.node import Node
from curvfed.client_app.personal import PARAMETER, restore_state, state_folder
from curvfed.deployments.inputs import PredictError, RequestError
from curvfed.deployments.predict.trained_run import TrainedRun, node_here
from curvfed.server_app.directory.run_name import check_model_code
from curvfed.strategies.base.abilities import RestoresModel, TunesNetwork
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.statistics import Arrays, named_state, select_prefix
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.config.build_method import build_model, learner_class, model_spec
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.wire.checks import check_arrays
from curvfed.strategies.wire.store import Store
from curvfed.tasks import plugins


def model_of(
    run: TrainedRun,
    client: int | None = None,
    state_path: Path | None = None,
    calibrated: bool = True,
) -> tuple[nn.Module, str]:
    """The global model, or a client's own, in evaluation mode, and its description.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If the code of the model has changed, the client does not exist, each client has its own
        model and none is named, the client's personal state is missing or does not fit, an
        uncalibrated model is asked of a run that has calibrated none, or no package makes a torch
        module of the classifier of a one-shot run (`classifier` of the group `curvfed.programs`).
    """
    check_model_code(run.path, run.config.model)
    check_client(run, client)
    if not calibrated and not run.checkpoint.calibrated:
        raise RequestError(
            f"--uncalibrated is given, but {run.path} has no calibrated classifier: leave it out",
            key="uncalibrated",
        )
    method = run.config.row
    if not method.has_network:
        classifier = classifier_of(run)
        program = plugins.addition("programs", "classifier")
        return program(classifier).eval(), f"the classifier ({classifier.kind})"
    learner = learner_class(method)
    facts = run.facts_of(client)
    model = build_model(model_spec(run.config, facts), run.config.seed)
    tensors = named_state(model)
    tuned = None if client is None else tuned_state(run, client, state_path)
    if tuned:
        arrays, stamp = tuned
        if issubclass(learner, TunesNetwork):
            model = learner.tuned_network(model, select_prefix(arrays, PARAMETER), run.config)
        restore_state(arrays, named_state(model), None)
        return model.eval(), f"client {client}'s own, fine-tuned after round {stamp}"
    description = "global"
    if client is not None and (learner.own_model or not run.shared.is_global):
        description = f"client {client}'s own"
        # The server may send a client more than parameters.
        sent = run.shared.sent_to(client) | run.fixed
        sent = {name: sent[name] for name in sent.keys() & tensors}
    else:
        sent = run.shared.global_model() | run.fixed
    names = method.personal_names(tensors, facts.own_ends)
    personal = {name: tensor for name, tensor in tensors.items() if name in names}
    if client is None or not learner.own_model:
        shared = {
            name: tensor.numpy(force=True)
            for name, tensor in tensors.items()
            if name not in personal
        }
        check_arrays(sent, shared)
    load_arrays(sent, tensors)
    if client is not None and (personal or learner.own_model):
        arrays, stamp = personal_state(run, client, state_path)
        restore_state(arrays, personal, None)
        model = _restored(learner, model, select_prefix(arrays, PARAMETER))
        if learner.own_model:
            description += f", after round {stamp}"
        else:
            description = (
                f"global, with the personal parameters of client {client} after round {stamp}"
            )
    elif client is not None and (rows := kept_rows(run, client, state_path)):
        model = _restored(learner, model, rows)
        description = f"global, with the rows that client {client} keeps"
    elif client is not None and run.config.fine_tunes and run.shared.sent_to(0):
        raise missing_state(
            run,
            "fine-tuned model",
            client,
            state_path,
            "fine-tunes the global model at each client",
        )
    elif calibrated and run.checkpoint.calibrated:
        head = run.checkpoint.calibrated
        expected_head = {name: tensors[name].numpy(force=True) for name in head.keys() & tensors}
        check_arrays(head, expected_head)
        load_arrays(head, tensors)
        description = "global, with the calibrated classifier"
    return model.eval(), description


def _restored(learner: type[Learner], model: nn.Module, state: Arrays) -> nn.Module:
    """The model that a client scores, from its stored state."""
    return learner.restored(model, state) if issubclass(learner, RestoresModel) else model


def classifier_of(run: TrainedRun) -> Classifier:
    """The classifier of a one-shot run.

    Raises
    ------
    PredictError
        If the run's model is not such a classifier.
    """
    try:
        classifier = Classifier.from_arrays(run.arrays)
        fits_groups = classifier.groups[-1] < len(run.groups)
        if classifier.curvature != run.config.points.curvature or not fits_groups:
            raise ValueError("it does not fit the configuration or the groups")
    except ValueError as error:
        raise PredictError(
            f"{run.path / 'model.safetensors'} is not the model of a run: {error}",
            key="not-a-model",
        ) from None
    return classifier


def check_client(run: TrainedRun, client: int | None) -> None:
    """Refuse a client that the run or its model lacks, and a missing client if each client has its
    own model.

    Raises
    ------
    RequestError
    """
    is_number = type(client) is int
    if client is not None and not (is_number and client in run.clients):
        raise RequestError(
            f"client is {client!r}; the clients of this run are {run.listed}", key="client"
        )
    if client is not None and not run.config.row.has_network:
        raise RequestError(
            f"client is {client}; {run.config.method} has one classifier for all clients: leave"
            " client out",
            key="client",
        )
    reason = run.reason_for_own_models
    if client is None and reason:
        raise RequestError(
            f"client is needed: {run.config.method} {reason}, so there is a model for every one"
            f" of the clients {run.with_models}{_recommended(run)}",
            key="client",
        )


def _recommended(run: TrainedRun) -> str:
    """The client whose model to take, in words: that with the data, or for data of no client the
    one with the best validation score; "" with a single model, or without scores."""
    from curvfed.server_app.directory.run_files import RunFiles

    files = RunFiles(run.path)
    if len(run.models) < 2 or not (run.path / "clients.csv").exists():
        return ""
    text = ". Data of a client need its own; for other data"
    _, scores = files.by_client("validation")
    latest = scores[-1:].ravel()
    if not np.isfinite(latest).any():
        return f"{text} compare several"
    best = int(np.nanargmax(latest))
    return (
        f"{text} take {files.partitions[best]}, whose model has the best validation score in the"
        f" last round, {100 * latest[best]:.1f}%"
    )


def personal_state(run: TrainedRun, client: int, state_path: Path | None) -> tuple[Arrays, int]:
    """The personal state of a client that belongs to the shared parameters, and its round.

    Parameters
    ----------
    client : int
    state_path : Path or None
        The `state-path` in the node's own configuration. None: the run's checkpoint, with the
        state of simulated clients, or a real node's folder below the user's.

    Raises
    ------
    PredictError, StoreError
        If it is missing, or belongs to another run, method or client, or to other data.
    """
    store = _store(run, client, state_path)
    if store is None:
        raise missing_state(run, "personal state", client, state_path, run.reason_for_own_models)
    stamp = run.stamps.get(client, 0)
    if stamp == 0:
        raise PredictError(
            f"client {client} has not trained in this run: it has no personal parameters yet",
            key="no-state",
        )
    return _load(run, store, stamp, client), stamp


def kept_rows(run: TrainedRun, client: int, state_path: Path | None) -> Arrays:
    """The rows of single entities that stayed at a client, if they are on this machine; arguments
    and errors are those of `personal_state`."""
    sums_rows = run.config.is_masked and learner_class(run.config.row).sums_by_name
    if not sums_rows or _store(run, client, state_path) is None:
        return {}
    arrays, _ = personal_state(run, client, state_path)
    return select_prefix(arrays, PARAMETER)


def tuned_state(run: TrainedRun, client: int, state_path: Path | None) -> tuple[Arrays, int] | None:
    """The last fine-tuned model of a client, and its round; None if it is not on this machine.

    Arguments and errors are those of `personal_state`.
    """
    store = _store(run, client, state_path, "tuned")
    if store is None:
        return None
    # Models of later rounds belong to another run.
    stamps = [stamp for stamp in store.stamps() if stamp <= run.last_round]
    if not stamps:
        return None
    return _load(run, store, stamps[-1], client), stamps[-1]


def missing_state(
    run: TrainedRun, state: str, client: int, state_path: Path | None, reason: str
) -> PredictError:
    """The error for a state of a client that is not on this machine; `reason` says why the
    client has one."""
    folders = ", nor in ".join(str(folder) for folder in _folders(run, client, state_path))
    return PredictError(
        f"no {state} of client {client} in {folders}. {run.config.method} {reason}:"
        " predict where that client trained (with --state-path, if its node has a state-path),"
        " or name a client that has trained in this run",
        key="no-state",
    )


def _folders(run: TrainedRun, client: int, state_path: Path | None) -> list[Path]:
    name = run.config.run_name
    if state_path is not None:
        return [state_folder(run.path.parent, name, node_here(client, state_path))]
    return [
        state_folder(run.path.parent, run.path.name, Node(partition=client)),
        state_folder(run.path.parent, name, node_here(client, None)),
    ]


def _store(
    run: TrainedRun, client: int, state_path: Path | None, folder_name: str = ""
) -> Store | None:
    stores = [Store(folder / folder_name) for folder in _folders(run, client, state_path)]
    return next((store for store in stores if store.stamps()), None)


def _load(run: TrainedRun, store: Store, stamp: int, client: int) -> Arrays:
    arrays, metadata = store.load(stamp)
    binding = {"run": run.config.run_name, "partition": client, "method": run.config.method}
    if client in run.clients:
        binding["data"] = run.clients[client].digest
    for name, value in binding.items():
        if metadata.get(name) != value:
            raise PredictError(
                f"the personal state in {store.folder} is of {name} {metadata.get(name)};"
                f" needed is {value}",
                key="other-state",
            )
    return arrays

"""The trained model of a run: the global one, or a client's own."""

from pathlib import Path

from torch import nn

from curvfed.client_app.personal import PARAMETER, restore_state
from curvfed.deployments.predict.trained_run import RequestError, TrainedRun
from curvfed.strategies.base.learner import load_arrays, to_numpy
from curvfed.strategies.base.named_arrays import named_state, select_prefix
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.wire.arrays import check_arrays


def model_of(
    run: TrainedRun,
    client: int | None = None,
    state_path: Path | None = None,
    calibrated: bool = True,
) -> tuple[nn.Module, str]:
    """The global model, or a client's own, in evaluation mode, and its description.

    Raises
    ------
    PredictError, MessageError, StoreError
        If there is no such client, each client has its own model and none is named, or the client's
        personal state is missing or does not fit.
    """
    check_client(run, client)
    method = run.config.row
    learner = learner_class(method)
    facts = run.facts if client is None else run.facts_of(client)
    model = build_model(model_spec(run.config, facts), run.config.seed)
    tensors = named_state(model)
    tuned = None if client is None else run.tuned_model(client, state_path)
    if tuned:
        arrays, stamp = tuned
        model = learner.tuned_network(model, select_prefix(arrays, PARAMETER), run.config)
        restore_state(arrays, named_state(model), None)
        return model.eval(), f"client {client}'s own, fine-tuned after round {stamp}"
    description = "global"
    if client is not None and (learner.own_model or not run.shared.is_global):
        sent = run.shared.sent_to(client) | run.fixed
        # The server may send a client more than parameters.
        description = f"client {client}'s own"
        sent = {name: sent[name] for name in sent.keys() & tensors}
    else:
        sent = run.shared.global_model() | run.fixed
    personal = {
        name: tensor for name, tensor in tensors.items() if method.is_personal(name, facts.own_ends)
    }
    if client is None or not learner.own_model:
        check_arrays(
            sent,
            {name: to_numpy(tensor) for name, tensor in tensors.items() if name not in personal},
        )
    load_arrays(sent, tensors)
    if client is not None and (personal or learner.own_model):
        arrays, stamp = run.personal_state(client, state_path)
        restore_state(arrays, personal, None)
        model = learner.restored(model, select_prefix(arrays, PARAMETER))
        if learner.own_model:
            description += f", after round {stamp}"
        else:
            description = (
                f"global, with the personal parameters of client {client} after round {stamp}"
            )
    elif client is not None and run.config.fine_tunes and run.shared.sent_to(0):
        raise run.missing_state(
            "fine-tuned model", client, state_path, "fine-tunes the global model at each client"
        )
    elif calibrated and run.checkpoint.calibrated:
        head = run.checkpoint.calibrated
        check_arrays(head, {name: to_numpy(tensors[name]) for name in head.keys() & tensors})
        load_arrays(head, tensors)
        description = "global, with the calibrated classifier"
    return model.eval(), description


def check_client(run: TrainedRun, client: int | None) -> None:
    """Refuse a client that the run does not have, and none if each client has its own model.

    Raises
    ------
    RequestError
    """
    if client is not None and client not in run.clients:
        raise RequestError(
            f"--client is {client}; the clients of this run are {run.listed}", key="client"
        )
    reason = run.reason_for_own_models
    if client is None and reason:
        raise RequestError(
            f"--client N is needed: {run.config.method} {reason}, so there is a model for every one"
            f" of the clients {run.with_models}",
            key="client",
        )

"""The trained model of a run on images or points: the global one, or a client's own."""

from pathlib import Path

from torch import nn

from curvfed.client_app.personal import PARAMETER, restore_state
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.strategies.base.learner import load_arrays, to_numpy
from curvfed.strategies.base.named_arrays import named_state, select_prefix
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.wire.arrays import check_arrays


def model_of(
    run: TrainedRun, client: int | None, state_path: Path | None, calibrated: bool
) -> tuple[nn.Module, str]:
    """The global model, or a client's own, and its description.

    Raises
    ------
    PredictError, MessageError, StoreError
        If the client's personal state is missing or does not fit.
    """
    method = run.config.row
    learner = learner_class(method)
    model = build_model(model_spec(run.config, run.facts), run.config.seed)
    tensors = named_state(model)
    if client is not None and (tuned := run.tuned_model(client, state_path)):
        restore_state(tuned[0], tensors, None)
        return model, f"client {client}'s own, fine-tuned after round {tuned[1]}"
    description = "global"
    sent = run.shared.global_model() | run.fixed
    if client is not None and (learner.own_model or not run.shared.is_global):
        sent = run.shared.sent_to(client) | run.fixed
        # The server may send a client more than parameters.
        description = f"client {client}'s own"
        sent = {name: sent[name] for name in sent.keys() & tensors}
    personal = {name: tensor for name, tensor in tensors.items() if method.is_personal(name)}
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
    return model, description

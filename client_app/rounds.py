"""A client's work in the phases of a round: it trains, scores, fine-tunes, or sums over its
examples, and contributes the result, in the open or masked."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import RecordDict
from torch import Tensor, nn

from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution, Work, check_contribution
from curvfed.client_app.data import check_class_sizes, has_small_class
from curvfed.client_app.questions import admit_data
from curvfed.client_app.start import check_start
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.calibration import Calibration, CalibrationError
from curvfed.strategies.base.figures import BEFORE
from curvfed.strategies.base.statistics import HEAD, Arrays, Leaving
from curvfed.strategies.base.training import TrainingError
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.masked import is_masked
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.messages import CONFUSION, LAST_ROUND, Request

if TYPE_CHECKING:
    from curvfed.client_app.secure import OpenSum


NO_CHANGE = "%s; this node adds no change to the sum"
"""The line of a node's log about a failure that stays there."""


def contribute(work: Work, client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    """Do the work of a phase, and contribute the result.

    In a secure sum the client first reads its peers' texts, and works only if it has the keys of
    the group and has not answered before. The work of training stores the personal state before it
    makes the contribution.

    Parameters
    ----------
    state : RecordDict
        Flower's state of this node.

    Returns
    -------
    dict
        The fields of the `Reply`, apart from its header and partition.
    """
    if client.is_masked and is_masked(client.config, request.header.phase):
        from curvfed.client_app.secure import mask_contribution, masked_answer

        def make(opened: "OpenSum") -> dict[str, Any]:
            return mask_contribution(work(client, request), client, request, state, opened)

        return masked_answer(client, request, state, make)
    contribution = work(client, request)
    if client.has_budget:
        check_contribution(client, request.header.phase, contribution)
    fields = {
        "arrays": contribution.arrays,
        "num_examples": contribution.weight,
        "metrics": contribution.figures,
    }
    is_last = request.header.round == client.config.num_rounds or (
        request.parts.get(LAST_ROUND) is True and client.config.may_stop_early
    )
    if contribution.scored is not None and is_last:
        fields |= _confusion(client, contribution.scored)
    return fields


def train(client: Client, request: Request) -> Contribution:
    """Train from the shared parameters received, and contribute them. Personal parameters stay.

    Raises
    ------
    ConfigError
        If the contribution has statistics of the data, which must not leave the node.
    """
    if client.is_private:
        replaced: Contribution | None = client.guard.train(client, request)
        if replaced is not None:
            return replaced
    started = time.perf_counter()
    received = prepare(client, request)
    learner = client.learner
    learner.max_examples = client.max_examples
    if learner.reports_statistics and not client.shares_statistics:
        raise ConfigError(
            f"{client.config.method} sends statistics of the data, which do not leave this node: it"
            " needs share-statistics",
            key="private-statistics",
        )
    if learner.sums_by_name:
        admit_data(client, is_fixed=True)
    before = client.scores()
    try:
        trained = client.fit(request.header.round)
    except TrainingError as error:
        if not _stays_silent(client, error):
            raise
        log.error(NO_CHANGE, error)
        prepare(client, request)
        client.commit(request.header.round, base=request.stamp)
        return Contribution(learner.share(), _weight(client), received=received).without_change()
    figures = {f"{name}{BEFORE}": value for name, value in before.items()} | client.scores()
    if trained is not None:
        figures |= {"loss": trained.loss, "steps": float(trained.steps)}
    figures |= {"seconds": time.perf_counter() - started} | _curvature(client)
    client.commit(request.header.round, base=request.stamp)
    return Contribution(
        learner.share(),
        _weight(client),
        figures,
        received=received,
        scored=learner.scored,
    )


def _stays_silent(client: Client, error: TrainingError | CalibrationError) -> bool:
    """Whether a failure stays at the client, which then takes part in a secure sum without a
    change: in the open it would tell of this member alone."""
    is_of_values = isinstance(error, CalibrationError) or error.kind == "not-finite"
    return client.is_masked and client.node.is_real and is_of_values


def _weight(client: Client) -> int:
    """The number of training examples. At a real node whose secure sums also count classes, those
    of its small classes are left out: the difference of the two numbers would be their size. By
    stated holders the server would choose whose update a sum has, so these do not count here."""
    if not client.node.is_real:
        return client.task.num_examples
    if client.config.calibrator is None or not sums_by_name(client.config):
        return client.task.num_examples
    labels = client.task.train_labels.numpy(force=True)
    return int(Leaving(client.node.min_class_size).examples(labels).sum())


def evaluate(client: Client, request: Request) -> Contribution:
    """Score the shared parameters received with the client's personal ones."""
    received = prepare(client, request)
    figures = client.scores() | _curvature(client)
    return Contribution({}, 0, figures, received=received, scored=client.learner.scored)


def fine_tune(client: Client, request: Request) -> Contribution:
    """Train a personal model from the shared parameters received. Only its scores are sent."""
    started = time.perf_counter()
    received = prepare(client, request)
    before = client.task.scores(client.model)
    try:
        tuned = client.fine_tune(request.header.round)
    except (TrainingError, CalibrationError) as error:
        if not _stays_silent(client, error):
            raise
        log.error(NO_CHANGE, error)
        return Contribution({}, 0, received=received)
    figures = {f"{name}{BEFORE}": value for name, value in before.items()}
    figures |= client.task.scores(tuned.model)
    if tuned.loss is not None:
        figures["loss"] = tuned.loss
    figures["seconds"] = time.perf_counter() - started
    return Contribution({}, 0, figures, received=received, scored=tuned.model)


def calibrate(client: Client, request: Request) -> Contribution:
    """Sum over the training features, from which the server computes a classifier."""
    if not client.run_guard.hides_classes:
        check_class_sizes(client.data, client.node)
    prepare(client, request)
    calibration = client.config.calibrator
    assert calibration is not None, "the phase is refused before"
    if all(name.startswith(HEAD) for name in client.tensors):  # the features are fixed
        admit_data(client, is_fixed=True)
    sums, num_examples = class_sums(client, calibration)
    labels = client.task.train_labels.numpy(force=True)
    client.warn_of_lost_classes(client.leaving_in_sums.classes_lost(labels), request)
    variances = None
    if calibration.is_private:
        classes, dim = client.model.get_parameter(f"{HEAD}weight").shape
        variances = calibration.variances(dim, classes)
    return Contribution({"sums": sums}, num_examples, bound=calibration.bound, variances=variances)


def class_sums(client: Client, calibration: Calibration) -> tuple[Floats, int]:
    """Sums over the training examples for calibration, as one vector, and the number of
    examples.

    Raises
    ------
    ConfigError
        If the sums would reveal class sizes that must not leave the node.
    """
    if calibration.counts_classes and not (client.shares_statistics or client.config.is_masked):
        raise ConfigError(
            "calibrate requests the sizes of classes, which do not leave this node: it needs"
            " share-statistics or secure-sum",
            key="private-statistics",
        )
    return calibration.of_client(client.model, client.task, client.leaving_in_sums)


def prepare(client: Client, request: Request, stamp: int | None = None) -> Arrays:
    """Prepare the client for the message.

    Parameters
    ----------
    stamp : int, optional
        The round of the personal state, if it is not the requested one.

    Returns
    -------
    dict of str to array
        The shared parameters received.
    """
    if client.is_masked:
        client.learn_holders(request)
    client.prepare(request.required_facts, request.stamp if stamp is None else stamp)
    received = decode_arrays(request.arrays, client.precision)
    if client.node.is_real:
        check_start(client, request, received)
    client.receive(received, decode_arrays(request.fixed))
    return received


def _curvature(client: Client) -> dict[str, float]:
    """The curvature of the model, for the report, if statistics may leave the client."""
    curvature = getattr(client.model, "curvature", None)
    if curvature is None or not client.shares_statistics:
        return {}
    number = curvature.item() if isinstance(curvature, Tensor) else curvature
    return {"curvature": number}


def _confusion(client: Client, model: nn.Module) -> dict[str, Any]:
    """The confusion matrix on the test examples after the last round, if statistics may leave the
    client and every class has enough of them."""
    if not client.shares_statistics:
        return {}
    counts = client.task.confusion(model)
    class_sizes = np.bincount(counts[::3], counts[2::3]).tolist()
    if not counts or has_small_class(class_sizes, client.node):
        return {}
    return {"parts": {CONFUSION: counts}}

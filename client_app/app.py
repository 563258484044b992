"""The ClientApp: routes the messages of a run to this process's client."""

import logging
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from curvfed.client_app import hull, secure
from curvfed.client_app.client import Client
from curvfed.client_app.clients_in_memory import forget, get_client
from curvfed.client_app.node_config import is_real, partition_id, public_text
from curvfed.client_app.resources import memory_errors
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.training import TrainingError
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.config.secure_average import check_examples, feature_sums, parameter_sums, weighted
from curvfed.strategies.hull.errors import HullError
from curvfed.strategies.run_log import log_to_stdout
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.wire.arrays import MessageError, decode_arrays
from curvfed.strategies.wire.messages import (
    CALIBRATE,
    CCVR,
    CURVATURE,
    DESCRIBE,
    FORGET,
    HULLS,
    KEYS,
    MEASURE,
    SHARES,
    UNMASK,
    WAKE_UP,
    Header,
    Reply,
    Request,
    decode_request,
    encode_reply,
)
from curvfed.strategies.wire.store import StoreError
from curvfed.strategies.wire.wake_up import wait_for_slot
from curvfed.tasks.errors import DataError

log = logging.getLogger("curvfed")

SAFE_ERRORS = (ConfigError, DataError, HullError, MessageError, SecureSumError, StoreError, TrainingError)
"""Errors whose texts are written to be sent; of any other only the kind leaves the client."""

app = ClientApp()

Handler = Callable[[Client, Request, RecordDict], dict[str, Any]]
"""From the client, what it was sent, and what it keeps between messages, to the content of its reply."""


def _describe(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    return {"description": client.describe()}


def _curvature(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    return {"metrics": client.mean_curvature()}


def _train(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    started = time.perf_counter()
    _prepare(client, request)
    before = client.scores()
    trained = client.fit(request.header.round)
    client.embed()
    metrics = {f"{part}_before": value for part, value in before.items()} | client.scores()
    if trained is not None:
        metrics |= {"loss": trained.loss, "steps": float(trained.steps)}
    metrics["seconds"] = time.perf_counter() - started
    answer: dict[str, Any] = {"arrays": client.share()}
    if client.config.secure_sum and client.shared:
        answer, metrics["clipped"] = _masked_parameters(client, request, state)
    client.commit(request.header.round, base=request.stamp)
    return answer | {"num_examples": client.task.num_examples, "metrics": metrics | _curvature_in_use(client)}


def _masked_parameters(client: Client, request: Request, state: RecordDict) -> tuple[dict[str, Any], float]:
    values, clipped = weighted(client.share(), client.task.num_examples, client.config.secure.clip)
    if clipped:
        log.warning("partition %d: %d parameters were clipped (secure.clip)", client.partition, clipped)
    answer = secure.masked_reals(client, request, state, values, lambda number: parameter_sums(client.config, number))
    return answer, float(clipped)


def _evaluate(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    if client.method.is_one_shot:
        return hull.evaluate(client, request, state)
    secure.end(client, state)
    _prepare(client, request)
    return {"metrics": client.scores() | _curvature_in_use(client)}


def _fine_tune(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    started = time.perf_counter()
    secure.end(client, state)
    _prepare(client, request)
    before = client.task.scores(client.model)
    loss = client.fine_tune(request.header.round)
    metrics = {f"{part}_before": value for part, value in before.items()} | client.task.scores(client.learner.tuned)
    if loss is not None:
        metrics["loss"] = loss
    return {"metrics": metrics | {"seconds": time.perf_counter() - started}}


def _sums(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    _prepare(client, request)
    sums, num_examples = client.sums(request.header.phase)
    if client.config.secure_sum:
        check_examples(num_examples)
        return secure.masked_reals(client, request, state, sums, feature_sums) | {"num_examples": num_examples}
    return {"num_examples": num_examples, "arrays": {"sums": sums}}


def _prepare(client: Client, request: Request) -> None:
    if request.facts is None:
        raise MessageError('the record "facts" is missing')
    client.prepare(request.facts, request.stamp)
    client.receive(decode_arrays(request.arrays), decode_arrays(request.fixed))


def _curvature_in_use(client: Client) -> dict[str, float]:
    """A figure for the report, where figures may leave; k, from which it comes, can be told from it."""
    curvature = getattr(client.model, "curvature", None)
    return {"curvature": curvature.item()} if curvature is not None and client.shares_statistics else {}


def _answer(message: Message, context: Context, handler: Handler) -> Message:
    """Run a handler; whatever goes wrong becomes a reply that says so and holds no data."""
    header, partition, client = Header("", "", 0), -1, None
    node_config = dict(context.node_config)
    if is_real(node_config):
        log_to_stdout()
    try:
        request = decode_request(message.content)
        header = request.header
        config = _config(tuple(context.run_config.items()))
        partition = partition_id(node_config)
        with memory_errors(config, node_config):
            client = get_client(config, header.run, partition, node_config)
            content = handler(client, request, context.state)
        return Message(encode_reply(Reply(header, partition, **content)), reply_to=message)
    except SAFE_ERRORS as error:
        # In a simulation the server says it, in the same log.
        level = logging.WARNING if is_real(node_config) else logging.DEBUG
        log.log(level, "partition %d, %s of round %d: %s", partition, header.phase, header.round, error)
        reason = public_text(error, node_config)
    except Exception as error:
        log.error(
            "partition %d, %s of round %d failed\n%s",
            partition,
            header.phase,
            header.round,
            _places(error) if is_real(node_config) else "".join(traceback.format_exception(error)),
        )
        reason = f"{type(error).__name__} at the client; its own log says more"
        if client is not None:
            forget(client)
    return Message(encode_reply(Reply(header, partition, error=reason)), reply_to=message)


def _places(error: BaseException | None) -> str:
    """What kinds of errors were raised and where, without their texts, which may hold data."""
    lines = []
    while error is not None:
        lines.append(type(error).__name__)
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            lines.append(f"  {frame.filename}:{frame.lineno} in {frame.name}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(lines)


@lru_cache(maxsize=8)
def _config(items: tuple[tuple[str, Any], ...]) -> RunConfig:
    return parse(dict(items))


@app.query(DESCRIBE)
def describe(message: Message, context: Context) -> Message:
    """Say who this is and what its data look like."""
    return _answer(message, context, _describe)


@app.query(CURVATURE)
def curvature(message: Message, context: Context) -> Message:
    """Send the mean Ricci curvature of the edges, where figures may leave."""
    return _answer(message, context, _curvature)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take the shared parameters, train, send them back; what is personal stays."""
    return _answer(message, context, _train)


@app.train("fine_tune")
def fine_tune(message: Message, context: Context) -> Message:
    """Take the shared parameters and train a personal model from them, which stays; send its scores."""
    return _answer(message, context, _fine_tune)


@app.query(CALIBRATE)
def calibrate(message: Message, context: Context) -> Message:
    """Send the sums over the training features that a classifier in closed form is made of."""
    return _answer(message, context, _sums)


@app.query(CCVR)
def ccvr(message: Message, context: Context) -> Message:
    """Send the sums that class-wise means and covariances of the training features are made of."""
    return _answer(message, context, _sums)


@app.query(MEASURE)
def measure(message: Message, context: Context) -> Message:
    """Say in this client's log how many of its points would leave it."""
    return _answer(message, context, hull.measure)


@app.query(KEYS)
def keys(message: Message, context: Context) -> Message:
    """Begin a secure sum: send fresh public keys."""
    return _answer(message, context, secure.keys)


@app.query(SHARES)
def shares(message: Message, context: Context) -> Message:
    """Take the peers' keys; send them shares of this client's secrets, sealed."""
    return _answer(message, context, secure.shares)


@app.query(HULLS)
def hulls(message: Message, context: Context) -> Message:
    """Send the quantised hulls, encoded and masked."""
    return _answer(message, context, hull.hulls)


@app.query(UNMASK)
def unmask(message: Message, context: Context) -> Message:
    """Reveal what lifts the masks of the sum, and nothing of a single client."""
    return _answer(message, context, secure.unmask)


@app.query(FORGET)
def forget_sum(message: Message, context: Context) -> Message:
    """Forget the secrets of a secure sum that came to nothing."""
    return _answer(message, context, secure.forget)


@app.query(WAKE_UP.removeprefix("query."))
def wake_up(message: Message, context: Context) -> Message:
    """Answer with an empty message, so that the SuperNode sends the reply that it holds back."""
    wait_for_slot()
    return Message(RecordDict(), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the shared parameters together with this client's own, without training."""
    return _answer(message, context, _evaluate)

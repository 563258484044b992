"""The ClientApp: it calls the handler of each message and sends the reply; other files of this
folder make the replies."""

import contextlib
import errno
import logging
import time
import traceback
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from curvfed.client_app import rounds
from curvfed.client_app.client import Client
from curvfed.client_app.clients_in_memory import forget, get_client
from curvfed.client_app.description import describe, start_figures
from curvfed.client_app.failures import note_failure
from curvfed.client_app.node import SIMULATED, Node, is_real, partition_of, public_text
from curvfed.client_app.resources import memory_error
from curvfed.strategies.base.abilities import StartsFromAll
from curvfed.strategies.base.method import OneShot
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.device import own_settings
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.masked import TARGETS, is_masked
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log, log_to_stdout
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_request, encode_reply
from curvfed.strategies.wire.messages import (
    AGREE,
    CALIBRATE,
    DESCRIBE,
    EVALUATE,
    FINE_TUNE,
    HOLDERS,
    KEYS,
    MEASURE,
    MESSAGE_TYPES,
    START,
    SUM,
    TRAIN,
    WAKE_UP,
    Header,
    Reply,
    Request,
)
from curvfed.tasks.errors import SafeError

SLOT = 4.0
"""Seconds between the times at which woken clients reply: longer than starting two of them."""


PLAIN = {"partition-id", "num-partitions", *SIMULATED}
"""The keys of a simulated node without keys of its own."""


app = ClientApp()

Handler = Callable[[Client, Request, RecordDict], dict[str, Any]]
"""(client, request, Flower's state of this node) -> the fields of the `Reply`, apart from its
header and partition."""


def _describe(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    if client.ledger:
        client.ledger.note_run(
            client.run, {"method": client.config.method, "secure-sum": client.config.is_masked}
        )
    # The upper bound on the number of examples in later replies.
    num_examples = int(client.data.train.sum()) if client.config.sends_examples else 0
    return {"description": describe(client), "num_examples": num_examples}


def _answer_start(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
    return {"metrics": start_figures(client)}


def _step(module: str, name: str) -> Handler:
    """A handler in another file of this folder, imported at its first message."""

    def handler(client: Client, request: Request, state: RecordDict) -> dict[str, Any]:
        step: Handler = getattr(import_module(f"curvfed.client_app.{module}"), name)
        return step(client, request, state)

    return handler


OF_EVERY_RUN: dict[str, Handler] = {
    DESCRIBE: _describe,
    KEYS: _step("secure_keys", "keys"),
    AGREE: _step("secure_keys", "agree"),
    HOLDERS: _step("holders", "count"),
}
OF_ROUNDS: dict[str, Handler] = OF_EVERY_RUN | {
    START: _answer_start,
    TRAIN: partial(rounds.contribute, rounds.train),
    EVALUATE: partial(rounds.contribute, rounds.evaluate),
    FINE_TUNE: partial(rounds.contribute, rounds.fine_tune),
    CALIBRATE: partial(rounds.contribute, rounds.calibrate),
}
OF_ONE_SHOT: dict[str, Handler] = OF_EVERY_RUN | {
    MEASURE: _step("one_shot", "measure"),
    EVALUATE: _step("one_shot", "evaluate"),
}
"""The handlers of a run's phases, by the kind of its method. The phase of a one-shot method's sum
has the name that the method gives it."""


def _starts_from_all(client: Client) -> bool:
    learner = learner_class(client.method)
    return issubclass(learner, StartsFromAll) and bool(learner.asked_for(client.config.own_keys))


CONDITIONS: dict[str, Callable[[Client], bool]] = {
    HOLDERS: lambda client: sums_by_name(client.config),
    START: _starts_from_all,
    TRAIN: lambda client: client.config.num_rounds > 0,
    EVALUATE: lambda client: not client.is_private,
    MEASURE: lambda client: not client.is_private,
    FINE_TUNE: lambda client: client.config.fine_tunes,
    CALIBRATE: lambda client: client.config.calibrator is not None,
    KEYS: lambda client: client.config.is_masked,
    AGREE: lambda client: client.config.is_masked,
}
"""Phases that belong only to some runs of a method."""


INTERVALS = {
    CALIBRATE: "calibration_every",
    FINE_TUNE: "fine_tune_every",
    EVALUATE: "evaluate_every",
}
"""Phases after the last round, with the key of the interval, in rounds, at which they also come."""


def check_phase(
    phase: str, message_type: str, client: Client, phases: Collection[str], round: int
) -> None:
    """Refuse a message by its phase, before its handler runs.

    Parameters
    ----------
    phase, message_type : str
        The phase that the message names, and Flower's message type, which selected the handler.
    client : Client
    phases : collection of str
        The phases of the client's method.
    round : int

    Raises
    ------
    ConfigError
        If the phase does not belong to the run or to the round, or a node that takes part only in
        secure sums would send an unmasked reply.
    """
    if (
        MESSAGE_TYPES.get(phase, MESSAGE_TYPES[SUM]) != message_type
        or phase not in phases
        or (phase in CONDITIONS and not CONDITIONS[phase](client))
    ):
        raise ConfigError(
            f'a message {message_type} of phase "{phase}" is no part of a run of method ='
            f' "{client.config.method}"',
            key="phase",
        )
    config = client.config
    if not (client.method.is_one_shot or _is_due(phase, round, config)):
        raise ConfigError(
            f'phase "{phase}" of round {round} is not due in a run of num-rounds ='
            f" {config.num_rounds}",
            key="phase",
        )
    if client.node.secure_sum and phase in TARGETS and not is_masked(config, phase):
        raise ConfigError(
            f'this node takes part in secure sums alone; phase "{phase}" would send its reply'
            " unmasked",
            key="secure-sum-only",
        )


def _is_due(phase: str, round: int, config: RunConfig) -> bool:
    """Whether a run has a phase in a round."""
    first = 1 if phase == TRAIN else 0
    if not first <= round <= config.num_rounds:
        return False
    if phase not in INTERVALS or config.may_stop_early:
        return True
    interval = getattr(config, INTERVALS[phase])
    return round == config.num_rounds or bool(interval and round % interval == 0)


DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk without room for a file, by its size, a quota or a limit of the user."""


def _answer(message: Message, context: Context) -> Message:
    """Run the handler of the message's phase. An error becomes a reply that names the error and
    contains no data."""
    header = Header("", "", 0)
    partition = -1
    config: RunConfig | None = None
    node: Node | None = None
    client: Client | None = None
    node_config = dict(context.node_config)
    if is_real(node_config):
        log_to_stdout()
    try:
        request = decode_request(message.content)
        header = request.header
        config = _config(tuple(context.run_config.items()))
        partition = partition_of(node_config)
        node = _node(node_config)
        with own_settings():
            client = get_client(config, header.run, node)
            handlers = OF_ROUNDS
            if isinstance(client.method, OneShot):
                handlers = OF_ONE_SHOT | {client.method.phase: _step("one_shot", "contribute")}
            check_phase(header.phase, message.metadata.message_type, client, handlers, header.round)
            if client.ledger is not None:
                from curvfed.client_app.questions import admit

                admit(client, request)
            # Replies to earlier messages have reported what was restored for them.
            client.restored = None
            handler = handlers[header.phase]
            fields = handler(client, request, context.state) | {"restored": client.restored}
        reply = Reply(header, partition, **fields)
        return Message(encode_reply(reply, client.precision), reply_to=message)
    except Exception as error:
        foreseen = error if isinstance(error, SafeError) else None
        if foreseen is None and config is not None and node is not None:
            foreseen = memory_error(error, config, node)
        if foreseen is not None:
            reason = _note_error(foreseen, header, partition, node_config)
            return Message(encode_reply(Reply(header, partition, error=reason)), reply_to=message)
        if not is_real(node_config) and getattr(error, "errno", 0) in DISK_FULL:
            # This disk is the server's: the run stops, and can be resumed once there is space.
            raise
        where = f"partition {partition}, {header.phase} of round {header.round}"
        if is_real(node_config):
            log.error("%s failed\n%s", where, _places(error))
        else:
            note_failure(error, where, header.round)
        reason = f"{type(error).__name__} at the client; its own log says more"
        if client is not None:
            forget(client)
    return Message(encode_reply(Reply(header, partition, error=reason)), reply_to=message)


def refuse(message: Message, context: Context, error: SafeError) -> Message:
    """Answer a message with this error, without running its phase."""
    node_config = dict(context.node_config)
    header = Header("", "", 0)
    with contextlib.suppress(MessageError):  # of another version
        header = decode_request(message.content).header
    partition = partition_of(node_config)
    reason = _note_error(error, header, partition, node_config)
    return Message(encode_reply(Reply(header, partition, error=reason)), reply_to=message)


def _note_error(
    error: SafeError, header: Header, partition: int, node_config: dict[str, Any]
) -> str:
    """Log a foreseen error, note it in a real node's ledger, and return its public text."""
    # In a simulation the server writes the error into the same log.
    level = logging.WARNING if is_real(node_config) else logging.DEBUG
    log.log(level, "partition %d, %s of round %d: %s", partition, header.phase, header.round, error)
    reason = public_text(error, node_config)
    if is_real(node_config) and partition >= 0:
        _note_refusal(header, partition, node_config, reason)
    return reason


def _note_refusal(header: Header, partition: int, node_config: dict[str, Any], reason: str) -> None:
    """Write a refusal into the node's ledger, if there is space: a refusal reveals nothing.

    The `state-path` locates the ledger, even in a configuration with other errors.
    """
    from curvfed.client_app.node.ledger import ledger_of

    with contextlib.suppress(ValueError):  # ConfigError, or a state-path that is not text
        node = Node(
            partition=partition,
            state_path=node_config.get("state-path"),
            signing_key=node_config.get("signing-key"),
        )
        ledger_of(node).refuse(reason, header.run, header.phase, header.round)


def _places(error: BaseException | None) -> str:
    """The classes of an error and its causes, and where each was raised. Their texts are left out,
    because they may contain data."""
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


def _node(node_config: dict[str, Any]) -> Node:
    """The node of a configuration; that of a node that is merely simulated is read once."""
    if node_config.keys() == PLAIN and not is_real(node_config):
        return _simulated_node(tuple(node_config.items()))
    return Node.read(node_config)


@lru_cache(maxsize=1024)
def _simulated_node(items: tuple[tuple[str, Any], ...]) -> Node:
    return Node.read(dict(items))


app.train()(_answer)
app.train("fine_tune")(_answer)
app.evaluate()(_answer)
for message_type in MESSAGE_TYPES.values():
    kind, _, action = message_type.partition(".")
    if kind == "query":
        app.query(action)(_answer)


@app.query(WAKE_UP.removeprefix("query."))
def wake_up(message: Message, context: Context) -> Message:
    """Answer with an empty message: then the SuperNode sends the reply that it holds back."""
    time.sleep(-time.time() % SLOT)
    return Message(RecordDict(), reply_to=message)

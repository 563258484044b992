"""Runs in this process: a Grid that calls the ClientApp directly, without SuperLink, Ray or
transport.

Flower sets the ids of messages and the identity of processes through internals. Only this module
uses them, and it raises an error if a Flower version has moved them.
"""

import contextlib
import copy
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from curvfed.client_app.app import app as client_app
from curvfed.client_app.failures import Failure, log_once, receive_failures
from curvfed.client_app.node import SIMULATED
from curvfed.deployments.arguments import NUM_SUPERNODES, Value
from curvfed.server_app.app import serve
from curvfed.server_app.directory.run_name import named
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, defaults, flatten
from curvfed.strategies.run_log import log, log_to_stdout
from curvfed.strategies.wire.codec import round_of
from curvfed.tasks.errors import KeyedError

try:
    from flwr.supercore.task_identity import TaskIdentity
except ImportError as error:  # pragma: no cover - depends on the Flower version
    raise ImportError(
        "this version of Flower has no TaskIdentity: the in-process Grid knows 1.39 to 1.42"
    ) from error

CLIENT_FAILED = 1

LACKS_REPLIES = (
    "federation.too-few-clients",
    "federation.refused-clients",
    "round.too-few-replies",
    "round.no-sum",
)
"""The keys of the errors of which a failure of a client in the same round is the cause."""

Handle = Callable[[Message], Message]


class InProcessGrid(Grid):
    """Simulated nodes that answer one after the other.

    Each node has a context of its own; its state is stored only if the handler succeeds. Arrays of
    messages are not copied, since they are immutable bytes; records are copied, so that neither
    side sees changes of the other.

    Parameters
    ----------
    client_app : ClientApp
    run_config : dict
    node_configs : list of dict
        The configuration of each node; for a simulation `simulated_nodes(n)`.
    intercept : callable, optional
        (request, handle) -> reply, or None for no answer; called instead of the ClientApp. Tests
        inject faults and record messages with it.
    """

    works_in_pull = True
    """The nodes work in the thread that pulls their replies."""

    def __init__(
        self,
        client_app: ClientApp,
        run_config: dict[str, Any],
        node_configs: list[dict[str, Any]],
        intercept: Callable[[Message, Handle], Message | None] | None = None,
    ) -> None:
        TaskIdentity.run_id = 1
        TaskIdentity.node_id = 1
        TaskIdentity.task_id = 1
        self._app = client_app
        # Not in the order of the partitions, since Flower's ids are random.
        self._contexts = {
            node: Context(1, node, config, RecordDict(), dict(run_config))
            for node, config in zip(range(len(node_configs) + 1, 1, -1), node_configs, strict=True)
        }
        self._intercept = intercept
        self._waiting: dict[str, Message] = {}
        self.failure: Failure | None = None
        receive_failures(self.note_failure)

    def note_failure(self, failure: Failure) -> None:
        """Log an unforeseen error of a client, and keep the first one of the round, the likely
        cause of too few replies."""
        log_once(failure)
        self.failure = self.failure or failure.received

    def set_run(self, run: Any) -> None:
        """Nothing to set: there is one run."""

    @property
    def run(self) -> Any:
        """None: a run in this process lacks a run record."""
        return None

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """See `flwr.serverapp.Grid`."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """All nodes."""
        return list(self._contexts)

    def get_nodes(self) -> Iterable[Any]:
        """No information about nodes; later versions of Flower request it."""
        return []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept messages; a node works when its reply is pulled."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid.uuid4())
            if self.failure and self.failure.round != round_of(message.content):
                self.failure = None
            self._waiting[message.metadata.message_id] = message
            ids.append(message.metadata.message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let the next node work, and return its reply."""
        for message_id in message_ids:
            message = self._waiting.pop(message_id, None)
            if message is None:
                continue
            content = RecordDict({key: record.copy() for key, record in message.content.items()})
            request = Message(content=content, metadata=message.metadata)  # type: ignore[call-overload]
            reply: Message | None
            if self._intercept is None:
                reply = self._handle(request)
            else:
                reply = self._intercept(request, self._handle)
            return [] if reply is None else [reply]
        return []

    def close(self) -> None:
        """End the nodes; here none outlives its reply."""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Replies to all messages, in their order."""
        ids = list(self.push_messages(messages))
        return [reply for message_id in ids for reply in self.pull_messages([message_id])]

    def _handle(self, request: Message) -> Message:
        context = self._contexts[request.metadata.dst_node_id]
        working = Context(
            context.run_id,
            context.node_id,
            context.node_config,
            copy.deepcopy(context.state),
            context.run_config,
        )
        try:
            reply = self._app(request, working)
        except OSError:  # a full disk, which the server uses, too
            raise
        except Exception as error:
            return Message(Error(code=CLIENT_FAILED, reason=type(error).__name__), reply_to=request)
        context.state = working.state
        return reply


def simulated_nodes(number: int) -> list[dict[str, Any]]:
    """The node configurations that Flower's simulation gives, marked as simulated."""
    return [
        {"partition-id": index, "num-partitions": number} | SIMULATED for index in range(number)
    ]


def simulate(
    settings: dict[str, Value],
    num_supernodes: int = NUM_SUPERNODES,
    node_configs: list[dict[str, Any]] | None = None,
    intercept: Any = None,
) -> Path:
    """Run in-process with run-config keys that differ from their defaults; see `run_in_process`."""
    nodes = simulated_nodes(num_supernodes) if node_configs is None else node_configs
    return run_in_process(parse(settings), nodes, intercept)


def run_in_process(
    config: RunConfig, node_configs: list[dict[str, Any]], intercept: Any = None
) -> Path:
    """Run in-process. The server takes the configuration as it is; the clients parse it once, as
    on their own machines.

    Parameters
    ----------
    config : RunConfig
    node_configs : list of dict
        Node configurations, as of real nodes or by `simulated_nodes`.
    intercept : callable, optional
        See `InProcessGrid`.

    Returns
    -------
    Path
        The run directory.

    Raises
    ------
    Exception
        The error that ended the run; the summary is written.
    """
    log_to_stdout()
    _warn_of_shared_state(node_configs)
    return run_in_grid(
        config,
        lambda run_config: InProcessGrid(client_app, run_config, node_configs, intercept),
    )


def _warn_of_shared_state(node_configs: Iterable[dict[str, Any]]) -> None:
    """Warn if nodes have one `state-path`: they share one secret, one key of their splits and one
    ledger of answers, and overwrite each other's files if their numbers are equal."""
    users: dict[Path, list[str]] = {}
    for config in node_configs:
        if state := config.get("state-path"):
            name = str(config.get("partition-id"))
            users.setdefault(Path(os.path.expanduser(state)).resolve(), []).append(name)
    for state, names in users.items():
        if len(names) > 1:
            log.warning(
                "state-path: %s is that of the nodes with partition-id %s; needed is a folder for"
                " each node",
                state,
                ", ".join(names),
            )


def run_in_grid(config: RunConfig, make_grid: Callable[[dict[str, Any]], InProcessGrid]) -> Path:
    """Run with the nodes of a grid, which is made from the run config; see `run_in_process`."""
    log_to_stdout()
    config = named(config)
    run_config = defaults() | flatten(config) | dict(config.unread)
    with contextlib.closing(make_grid(run_config)) as grid:
        try:
            return serve(config, grid)
        except KeyedError as error:
            if grid.failure is None or error.key not in LACKS_REPLIES:
                raise
            raise error from grid.failure.error

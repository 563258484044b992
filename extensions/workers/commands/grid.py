"""Simulated nodes in worker processes, forks of the run's process: each node stays in one worker.

Data and modules that were loaded before are shared, and a model for all clients is written once per
phase.
"""

import contextlib
import gc
import itertools
import logging
import os
import select
import signal
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

from curvfed.client_app.app import app
from curvfed.client_app.clients_in_memory import share_memory
from curvfed.client_app.failures import Failure, receive_failures
from curvfed.deployments.inprocess import InProcessGrid, run_in_grid, run_in_process
from curvfed.deployments.processes import SIGNALS, follow, forked, kill
from curvfed.deployments.simulation import Simulator
from curvfed.extensions.workers.commands.gpus import gpus_in_turn, workers_of
from curvfed.extensions.workers.commands.line import Line, Parcel
from curvfed.extensions.workers.commands.plan import gpu_plan, plan_workers
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.run_log import log, log_to_stdout
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks.amounts import amount, be

AHEAD = 2
"""Messages at a worker: the next one waits while it works."""

PATIENCE = 1.0
"""Seconds to wait for a reply before the caller looks at its deadline."""


@dataclass(eq=False)
class _Worker:
    """The process of a worker, the connection to it, and the messages that were sent to it and not
    answered, by id."""

    process: int
    line: Line
    sent: dict[str, Message] = field(default_factory=dict)

    def end(self) -> str:
        """End the process, and return how it has ended."""
        self.line.socket.close()
        return kill(self.process)


class WorkerGrid(InProcessGrid):
    """Simulated nodes in worker processes; see `InProcessGrid`.

    Flower's state of a node travels with its messages. So a message to a worker that was killed is
    given to another one, which sets the client up from its files.

    Parameters
    ----------
    client_app : ClientApp
    run_config : dict
    node_configs : list of dict
    number : int
        Number of workers.
    gpus : sequence of str
        The GPU of each worker, as in CUDA_VISIBLE_DEVICES; empty to leave that variable as it is.
    """

    def __init__(
        self,
        client_app: ClientApp,
        run_config: dict[str, Any],
        node_configs: list[dict[str, Any]],
        number: int,
        gpus: Sequence[str] = (),
    ) -> None:
        super().__init__(client_app, run_config, node_configs)
        self._run_name = run_config["run-name"]
        self._parcel = Parcel()
        self._workers: list[_Worker] = []
        self._failures: list[Failure] = []  # of the message at work, in a worker
        # As in the workers, or the server's scores could differ from those of a run in one process.
        torch.set_num_threads(1)
        # Pages with objects that the garbage collector visits would be copied in each worker.
        gc.collect()
        gc.freeze()
        # Until the workers ignore them, and `close` ends all of the workers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            for worker in range(number):
                gpu = gpus[worker] if gpus else None
                self._workers.append(self._fork(number, gpu))
            # A signal that came meanwhile is handled here, so that its exception ends the workers.
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        except BaseException:
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            gc.unfreeze()
        turns = itertools.cycle(self._workers)
        self._homes = {node: next(turns) for node in self._contexts}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept messages; a node works when its reply is pulled."""
        self._parcel = Parcel()
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let the nodes work, and return the replies that are there; without any, wait a while."""
        awaited_ids = list(message_ids)
        for message_id in awaited_ids:
            if message_id in self._waiting:
                self._hand_out(message_id)
        lines = {worker.line.socket: worker for worker in self._workers if worker.sent}
        ready, _, _ = select.select(list(lines), [], [], PATIENCE)
        replies = [self._collect(lines[end]) for end in ready]
        # A reply that comes too late is no longer wanted.
        return [
            reply
            for reply in replies
            if reply and reply.metadata.reply_to_message_id in awaited_ids
        ]

    def close(self) -> None:
        """End the workers, whatever they do: files are replaced, never half written."""
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _hand_out(self, message_id: str) -> None:
        message = self._waiting[message_id]
        node = message.metadata.dst_node_id
        worker = self._homes[node]
        if len(worker.sent) >= AHEAD:
            return
        place = self._parcel.add((message, self._contexts[node].state))
        worker.sent[message_id] = self._waiting.pop(message_id)
        # If the worker has ended, `pull_messages` learns it from its socket.
        with contextlib.suppress(ConnectionError):
            worker.line.send(self._parcel, place)

    def _collect(self, worker: _Worker) -> Message | None:
        answer = worker.line.receive()
        if answer is None:
            self._replace(worker)
            return None
        reply, state, failure = answer
        if failure is not None:
            self.note_failure(failure)
        if isinstance(reply, OSError):  # a full disk, which the server uses, too
            raise reply
        message = worker.sent.pop(reply.metadata.reply_to_message_id)
        self._contexts[message.metadata.dst_node_id].state = state
        return reply

    def _replace(self, worker: _Worker) -> None:
        """Give the nodes of a worker that has ended to the others.

        Raises
        ------
        FederationError
            If it was the last one.
        """
        cause = worker.end()
        self._workers.remove(worker)
        if not self._workers:
            raise FederationError(
                f"the last worker process {worker.process} has ended ({cause}), usually for lack of"
                " memory: give fewer of them (workers). The finished rounds are stored: the same"
                f" command with run-name={self._run_name} resume=true continues",
                key="worker-died",
            )
        log.warning(
            "worker process %d has ended (%s), usually for lack of memory", worker.process, cause
        )
        nodes = [node for node, home in self._homes.items() if home is worker]
        workers_in_turn = itertools.cycle(self._workers)
        self._homes |= {node: next(workers_in_turn) for node in nodes}
        self._waiting = worker.sent | self._waiting
        log.warning(
            "%s of it %s set up anew in the other workers",
            amount(len(nodes), "client"),
            be(len(nodes)),
        )

    def _fork(self, number: int, gpu: str | None) -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = forked(partial(self._serve, number, gpu, ours, theirs, os.getpid()))
        except OSError:  # too many processes
            ours.close()
            raise
        finally:
            theirs.close()
        return _Worker(process, Line(ours))

    def _serve(
        self,
        number: int,
        gpu: str | None,
        ours: socket.socket,
        theirs: socket.socket,
        parent: int,
    ) -> None:
        """Answer messages, in a fork of the parent process."""
        for end in (ours, *(worker.line.socket for worker in self._workers)):
            end.close()
        follow(parent)
        # The threads of torch's arithmetic, if there were any, are not in a fork.
        torch.set_num_threads(1)
        if gpu is not None:  # CUDA, which this process has not started, reads it
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        share_memory(number)
        receive_failures(self._failures.append)
        Line(theirs).answer(self._answer)

    def _answer(
        self, received: tuple[Message, RecordDict]
    ) -> tuple[Message | OSError, RecordDict, Failure | None]:
        """The reply to a message, the new state of its node, and its unforeseen error, if any."""
        message, state = received
        context = self._contexts[message.metadata.dst_node_id]
        context.state = state
        reply: Message | OSError
        try:
            reply = self._handle(message)
        except OSError as error:
            # An error of a subclass may be one that cannot be pickled.
            reply = OSError(error.errno, error.strerror, error.filename)
        state = context.state
        context.state = RecordDict()
        failures = [failure.portable for failure in self._failures]
        self._failures.clear()
        return reply, state, next(iter(failures), None)


def run_simulation(config: RunConfig, node_configs: list[dict[str, Any]]) -> Path:
    """Run with clients in as many processes as the configuration and this machine allow; see
    `run_in_process`."""
    log_to_stdout()
    plan = plan_workers(config, len(node_configs))
    if plan.reason:
        log.log(logging.WARNING if plan.is_short else logging.INFO, "%s", plan)
    with gpus_in_turn(plan.gpus, plan.number) as gpus, contextlib.ExitStack() as block:
        if gpus:
            log.info("%s", workers_of(gpus))
            # The server computes on the GPU of the first worker.
            if first := plan.gpus.index(gpus[0]):
                block.enter_context(torch.cuda.device(first))
        if plan.number == 1:
            return run_in_process(config, node_configs)
        # The only GPU, or the one that `device` names, is seen by all workers already.
        turns = gpus if len(plan.gpus) > 1 else ()
        return run_in_workers(config, node_configs, plan.number, turns)


def run_in_workers(
    config: RunConfig, node_configs: list[dict[str, Any]], number: int, gpus: Sequence[str] = ()
) -> Path:
    """Run with clients in this number of worker processes, each with its GPU in
    CUDA_VISIBLE_DEVICES; see `run_in_process`."""
    return run_in_grid(
        config, lambda run_config: WorkerGrid(app, run_config, node_configs, number, gpus)
    )


WORKERS = Simulator(run_simulation, gpu_plan)

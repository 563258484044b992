"""The phases of a round: requests to the clients, checks of their replies, and their updates."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.progress import PHASE_SILENCE, Progress
from curvfed.server_app.run import Run
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.checks import check_confusion, check_steps, check_variances
from curvfed.strategies.wire.messages import CONFUSION, TRAIN, Header, Parts, Reply
from curvfed.tasks.names import titles


class RoundPhases(Run):
    """A run whose requests carry the current model.

    Attributes
    ----------
    model : Aggregation
    fixed : dict of str to array
        The parameters that the server sets once for all clients.
    progress : Progress
    confusions : dict of partition to list of int
        Confusion counts of the last scores: flat triples of true class, predicted class and number
        of test examples.
    """

    model: Aggregation
    fixed: Arrays
    progress: Progress
    confusions: dict[int, list[int]]

    def ask(
        self,
        header: Header,
        parts: Mapping[int, Parts],
        check: Check,
        template: Arrays | None = None,
        in_round: bool = True,
    ) -> Phase:
        """Run a phase of a secure sum; the masked phase itself is recorded by the caller."""
        if template is not None:
            return self.ask_round(header.phase, header.round, parts, template, parts, check)
        started = time.monotonic()
        phase = self.send(
            header,
            {partition: ClientRequest(parts=values) for partition, values in parts.items()},
            check,
        )
        self.record_phase(
            phase, phase.row(self.federation) | {"seconds": time.monotonic() - started}, in_round
        )
        return phase

    def ask_round(
        self,
        name: str,
        number: int,
        partitions: Iterable[int],
        template: Arrays | None = None,
        parts: Mapping[int, Parts] | None = None,
        check: Check | None = None,
    ) -> Phase:
        """Run a phase that sends each client the current model; `template` has the arrays that a
        reply must have."""
        holders = set(self.state.fixed_holders)
        requests = {
            partition: ClientRequest(
                self.model.sent_to(partition),
                self.state.stamps.get(partition, 0),
                self.fixed if partition not in holders else {},
                (parts or {}).get(partition, {}),
                template or (self.model.expected_reply(partition) if name == TRAIN else {}),
            )
            for partition in partitions
        }
        phase = self.send(
            self.header(name, number),
            requests,
            lambda reply: self._check_reply(reply, check),
            lambda done, total: self.progress.say(
                number, f"{name}: {done} of {total} clients", PHASE_SILENCE
            ),
        )
        # Failed clients may have lost the fixed parameters; the next request sends them again.
        self.state.fixed_holders = (
            sorted((holders | phase.replies.keys()) - phase.reasons.keys()) if self.fixed else []
        )
        return phase

    def _check_reply(self, reply: Reply, extra_check: Check | None) -> None:
        """Refuse a changed number of examples, an impossible number of steps, and impossible
        running statistics.

        Raises
        ------
        MessageError
        """
        config = self.config
        expected = self.state.examples.get(reply.partition)
        if config.secure_sum and extra_check is not None:
            if reply.num_examples or reply.metrics:
                raise MessageError(
                    "a reply of a secure sum has figures that are not masked", key="open-figures"
                )
            extra_check(reply)
            return
        if expected is None and reply.header.phase == TRAIN:
            expected = self.federation.descriptions[reply.partition].statistics.get("num_train")
        if reply.header.phase == TRAIN:
            if expected is not None and reply.num_examples != expected:
                raise MessageError(
                    f"num_examples is {reply.num_examples}; it was {expected} before",
                    key="num-examples",
                )
            # For nodes, examples are training nodes, while the batch size counts all nodes: a batch
            # has at least one training node.
            size = (
                min(config.batch_size, 1)
                if self.federation.facts.task == "nodes"
                else config.batch_size
            )
            check_steps(reply.metrics.get("steps"), reply.num_examples, config.local_epochs, size)
            check_variances(reply.arrays)
        elif expected is not None and reply.num_examples > expected:
            raise MessageError(
                f"num_examples is {reply.num_examples}; it trained on {expected}",
                key="num-examples",
            )
        if CONFUSION in reply.parts:
            self._check_confusion(reply)
        if extra_check is not None:
            extra_check(reply)

    def record_phase(self, phase: Phase, row: Mapping[str, Any], in_round: bool = True) -> None:
        """Record a phase, a training phase with the clients' weights."""
        self.record(
            phase, row, self.model.weights() if phase.header.phase == TRAIN else {}, in_round
        )

    def _check_confusion(self, reply: Reply) -> None:
        num_test = self.federation.descriptions[reply.partition].statistics.get("num_test")
        if num_test is None or reply.header.round != self.config.num_rounds:
            raise MessageError(
                "counts of true and predicted classes are not expected", key="unexpected-confusion"
            )
        check_confusion(reply.parts[CONFUSION], len(self._class_names(reply.partition)), num_test)

    def note_confusions(self, phase: Phase) -> None:
        """Keep the confusion counts of a phase's replies."""
        self.confusions |= {
            partition: reply.parts[CONFUSION]
            for partition, reply in phase.replies.items()
            if CONFUSION in reply.parts
        }

    def write_confusions(self) -> None:
        """Write the clients' confusion counts with the names of their classes."""
        rows = []
        for partition, counts in sorted(self.confusions.items()):
            names = [*self._class_names(partition), ""]  # the name of -1, no class
            triples = zip(counts[::3], counts[1::3], counts[2::3], strict=True)
            rows += [
                (partition, names[true], names[predicted], count)
                for true, predicted, count in triples
            ]
        self.directory.write_confusions(rows)

    def _class_names(self, partition: int) -> list[str]:
        """A client's classes in the order of its logits, as the report names them."""
        description = self.federation.descriptions[partition]
        return titles(
            description.space, self.federation.facts.class_names or description.class_names
        )


def updates_of(phase: Phase) -> dict[int, Statistics]:
    """The clients' updates by partition.

    With a `wire-precision` below float32, the rounding error of the model sent to a client is added
    to its reply, so that the update equals the change that the client made.
    """
    sent = {id(request.arrays): request.arrays for request in phase.sent.values()}
    rounding_losses = {key: phase.precision.lost(arrays) for key, arrays in sent.items()}
    updates = {}
    for partition, reply in phase.replies.items():
        losses = rounding_losses[id(phase.sent[partition].arrays)]
        arrays = {
            name: array + losses[name] if name in losses else array
            for name, array in reply.arrays.items()
        }
        updates[partition] = Statistics(arrays, reply.num_examples, reply.metrics)
    return updates

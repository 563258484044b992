"""The phases of a round: what each client is asked, whether it can have done what its reply tells,
and its update."""

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.progress import PHASE_SILENCE, Progress
from curvfed.server_app.run import Run
from curvfed.strategies.base.aggregation import Aggregation, Update
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.checks import check_confusion, check_steps, check_variances
from curvfed.strategies.wire.messages import CONFUSION, TRAIN, Header, Parts, Reply
from curvfed.tasks.names import titles


class RoundPhases(Run):
    """A run whose clients are asked with the present model.

    Attributes
    ----------
    model : Aggregation
    fixed : dict of str to array
        The parameters that the server sets once for all clients.
    progress : Progress
    confusions : dict of partition to list of int
        Of the last scores: true class, predicted class and number of test examples, one after the
        other.
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
        awaited: Arrays | None = None,
        in_round: bool = True,
    ) -> Phase:
        """Run a phase of a secure sum; the masked phase itself is recorded by the caller."""
        if awaited is not None:
            return self.ask_round(header.phase, header.round, parts, awaited, parts, check)
        started = time.monotonic()
        phase = self.send(
            header, {partition: ClientRequest(parts=one) for partition, one in parts.items()}, check
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
        """Run a phase in which each client gets the present model; `template` has the arrays that a
        reply must have."""
        told = set(self.state.told)
        requests = {
            partition: ClientRequest(
                self.model.sent_to(partition),
                self.state.stamps.get(partition, 0),
                self.fixed if partition not in told else {},
                (parts or {}).get(partition, {}),
                template or (self.model.expected_reply(partition) if name == TRAIN else {}),
            )
            for partition in partitions
        }
        phase = self.send(
            self.header(name, number),
            requests,
            lambda reply: self._check_reply(reply, check),
            lambda done, asked: self.progress.say(
                number, f"{name}: {done} of {asked} clients", PHASE_SILENCE
            ),
        )
        # Clients that failed may have lost the fixed parameters, which are sent to them again.
        self.state.told = (
            sorted((told | phase.replies.keys()) - phase.reasons.keys()) if self.fixed else []
        )
        return phase

    def _check_reply(self, reply: Reply, further: Check | None) -> None:
        """Refuse a changed number of examples, an impossible number of steps, and impossible
        running statistics.

        Raises
        ------
        MessageError
        """
        config = self.config
        known = self.state.examples.get(reply.partition)
        if config.secure_sum and further is not None:
            if reply.num_examples or reply.metrics:
                raise MessageError("a reply of a secure sum with figures in the open")
            further(reply)
            return
        if known is None and reply.header.phase == TRAIN:
            known = self.federation.descriptions[reply.partition].statistics.get("num_train")
        if reply.header.phase == TRAIN:
            if known is not None and reply.num_examples != known:
                raise MessageError(f"num_examples is {reply.num_examples}; it was {known} before")
            # Of nodes, the training ones are counted here, and the batch size counts all: a batch
            # has one of the former.
            size = (
                min(config.batch_size, 1)
                if self.federation.facts.task == "nodes"
                else config.batch_size
            )
            check_steps(reply.metrics.get("steps"), reply.num_examples, config.local_epochs, size)
            check_variances(reply.arrays)
        elif known is not None and reply.num_examples > known:
            raise MessageError(f"num_examples is {reply.num_examples}; {known} were trained on")
        if CONFUSION in reply.parts:
            self._check_confusion(reply)
        if further is not None:
            further(reply)

    def record_phase(self, phase: Phase, row: Mapping[str, Any], in_round: bool = True) -> None:
        """Record a phase, a training phase with the clients' weights."""
        self.record(
            phase, row, self.model.weights() if phase.header.phase == TRAIN else {}, in_round
        )

    def _check_confusion(self, reply: Reply) -> None:
        num_test = self.federation.descriptions[reply.partition].statistics.get("num_test")
        if num_test is None or reply.header.round != self.config.num_rounds:
            raise MessageError("counts of true and predicted classes are not expected")
        check_confusion(reply.parts[CONFUSION], len(self._class_names(reply.partition)), num_test)

    def note_confusions(self, phase: Phase) -> None:
        """Keep what the clients tell of their last scores, of a phase whose replies are checked as
        those of a round."""
        self.confusions |= {
            p: reply.parts[CONFUSION]
            for p, reply in phase.replies.items()
            if CONFUSION in reply.parts
        }

    def write_confusions(self) -> None:
        """Write what the clients have told of their last scores by the names of their classes."""
        rows = []
        for partition, told in sorted(self.confusions.items()):
            names = [*self._class_names(partition), ""]  # of -1, which is no class
            triples = zip(told[::3], told[1::3], told[2::3], strict=True)
            rows += [
                (partition, names[true], names[other], count) for true, other, count in triples
            ]
        self.directory.write_confusions(rows)

    def _class_names(self, partition: int) -> list[str]:
        """A client's classes in the order of its logits, as the report names them."""
        about = self.federation.descriptions[partition]
        return titles(about.space, self.federation.facts.class_names or about.class_names)


def updates_of(phase: Phase) -> dict[int, Update]:
    """What each client contributes to the aggregation.

    With a `wire-precision` below float32 each reply is moved by what rounding took from the model
    on its way to the client: it is as far from the server's model as the client's result is from
    what the client received.
    """
    sent = {id(request.arrays): request.arrays for request in phase.sent.values()}
    lost = {key: phase.precision.lost(arrays) for key, arrays in sent.items()}
    return {
        p: Update(
            reply.num_examples,
            {
                name: array + rests[name] if name in rests else array
                for name, array in reply.arrays.items()
            },
            int(reply.metrics.get("steps", 0)),
            reply.metrics.get("loss", math.nan),
        )
        for p, reply in phase.replies.items()
        for rests in [lost[id(phase.sent[p].arrays)]]
    }

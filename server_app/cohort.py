"""The clients of a run as their server sees them: in the open, each client's contribution.

In `curvfed.server_app.secure.masked_cohort` the server sees only sums. The loop chooses once; users
of the contributions do not see the choice.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from flwr.app import ArrayRecord

from curvfed.server_app.answer import Answer, Question, parts_size, reason_texts
from curvfed.server_app.run import RoundError, Run
from curvfed.strategies.base.figure_values import check_sent
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import (
    MessageError,
    check_arrays,
    check_confusion,
    check_steps,
)
from curvfed.strategies.wire.codec import encode_arrays
from curvfed.strategies.wire.exchange import AWAY, exchange
from curvfed.strategies.wire.messages import (
    CONFUSION,
    EVALUATE,
    FINE_TUNE,
    LAST_ROUND,
    MEASURE,
    TRAIN,
    WITHOUT_KEYS,
    Header,
    Parts,
    Reply,
    Request,
)
from curvfed.strategies.wire.precision import EXACT
from curvfed.tasks.kinds import KINDS

Check = Callable[[Reply], None]
"""Refuses a bad reply with a MessageError."""

FIGURES_ALONE = (EVALUATE, FINE_TUNE, MEASURE)
"""Phases without a minimum number of replies."""

Template = Callable[[int], Arrays]
"""The names, shapes and dtypes of the arrays that a client, by partition, must send."""


@dataclass(frozen=True, eq=False)
class Sent:
    """A request to a client as it is sent.

    Attributes
    ----------
    request : Request
    size : int
        Bytes of its arrays and parts.
    errors : dict of str to array
        The rounding errors of its model.
    """

    request: Request
    size: int
    errors: Arrays


class Cohort(ABC):
    """Asks clients of a run, and gives their contributions.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @abstractmethod
    def ask(self, question: Question) -> Answer:
        """Send the model to some clients and collect their contributions.

        Raises
        ------
        RoundError
            If too few clients contribute.
        """

    def send(
        self,
        header: Header,
        clients: Collection[int],
        check: Check,
        parts: Mapping[int, Parts],
        template: Template | None,
    ) -> Answer:
        """Send each client the current model and the further values `parts`, or only these without
        a template, and collect the valid replies.

        A reply is dropped, with the reason, if it is late, belongs to another phase, or has
        unexpected arrays or values that are not finite.

        Raises
        ------
        MessageError
            If a parameter is too large for the run's precision.
        """
        run = self.run
        nodes = run.federation.nodes
        sent = self._requests(header, clients, parts, has_model=template is not None)
        received, failures, seconds = exchange(
            run.grid,
            {nodes[client]: to_client.request for client, to_client in sent.items()},
            run.config.round_timeout,
            partial(run.progress.count, header),
            run.precision,
        )
        failed = {
            client: failures[nodes[client]] for client in clients if nodes[client] in failures
        }
        reasons = {client: str(error) for client, error in failed.items()}
        away = {client for client, error in failed.items() if error.kind in AWAY}
        replies: dict[int, Reply] = {}
        up: dict[int, int] = {}
        without_keys = set()
        for client in sorted(set(clients) - reasons.keys()):
            reply = received[nodes[client]]
            if WITHOUT_KEYS in reply.parts:
                without_keys.add(client)
                reasons[client] = "it lacks the keys of its group"
                continue
            expected = template(client) if template else {}
            try:
                replies[client] = _accepted(reply, client, sent[client], expected, check)
            except MessageError as error:
                reasons[client] = str(error)
                continue
            # A resumed run lacks the confusion counts; it has the bytes of an uninterrupted one.
            others = {name: value for name, value in reply.parts.items() if name != CONFUSION}
            up[client] = run.precision.size(reply.arrays)
            if others:
                up[client] += parts_size(others)
        reasons = dict(sorted(reasons.items()))
        for text in reason_texts(reasons, run.federation):
            log.warning("%s: dropped the reply of %s", run.place(header), text)
        if run.fixed and template is not None:
            # Failed clients may have lost the fixed parameters; the next request sends them again.
            run.state.fixed_holders = sorted(
                (set(run.state.fixed_holders) | replies.keys()) - reasons.keys()
            )
        return Answer(
            header,
            replies,
            reasons,
            seconds={client: seconds.get(nodes[client], math.nan) for client in clients},
            bytes_down={client: to_client.size for client, to_client in sent.items()},
            bytes_up=up,
            without_keys=frozenset(without_keys),
            away=frozenset(away),
        )

    def _requests(
        self,
        header: Header,
        clients: Collection[int],
        parts: Mapping[int, Parts],
        has_model: bool,
    ) -> dict[int, Sent]:
        """The request to each client; without a model it has only further values. Clients that are
        sent the same model share its encoding."""
        run = self.run
        precision = run.precision
        fixed = encode_arrays(run.fixed if has_model else {})
        encoded: dict[int, tuple[Arrays, ArrayRecord, Arrays]] = {}
        sent = {}
        for client in clients:
            values = parts.get(client, {})
            request = Request(header, facts=run.federation.facts, parts=values)
            size = parts_size(values) if values else 0
            errors: Arrays = {}
            if has_model:
                model = run.model.sent_to(client)
                if id(model) not in encoded:  # it stays there, so that no other has this id
                    errors = precision.lost(model) if precision.parameters else {}
                    encoded[id(model)] = model, encode_arrays(model, precision), errors
                _, arrays, errors = encoded[id(model)]
                size += precision.size(model)
                needs_fixed = client not in run.state.fixed_holders
                if run.fixed and needs_fixed:
                    size += EXACT.size(run.fixed)
                request = replace(
                    request,
                    stamp=run.state.stamps.get(client, 0),
                    arrays=arrays,
                    fixed=fixed if needs_fixed else ArrayRecord(),
                    holders=run.state.holders_of(client) if run.state.holders else None,
                )
            sent[client] = Sent(request, size, errors)
        return sent

    def check_enough(self, answer: Answer) -> None:
        """Refuse an answer with too few valid replies.

        Raises
        ------
        RoundError
        """
        number = len(answer.replies)
        needed = min(self.run.config.min_replies, len(answer.seconds))
        if number < needed:
            raise RoundError(
                f"{self.run.place(answer.header)}: {number} good replies of {len(answer.seconds)},"
                f" needed are {needed} (min-replies)."
                f" {answer.failure_summary(self.run.federation)}",
                key="too-few-replies",
            )

    def record(self, answer: Answer, started: float, in_round: bool) -> None:
        """Record an answer to a question that was asked at this time, without further figures."""
        row = answer.row(self.run.federation) | {"seconds": time.monotonic() - started}
        self.run.record(answer, row, in_round=in_round)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """The clients that must be asked for these to have scores."""
        return list(clients)


class OpenCohort(Cohort):
    """The server sees each client's contribution."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._epoch_factor = learner_class(run.config.row).epoch_factor
        self._batch_size = run.config.batch_size
        if not KINDS[run.federation.facts.task].batches_training_only:
            # A batch of clusters counts all its nodes, at least one of which is a training node.
            self._batch_size = min(self._batch_size, 1)

    def ask(self, question: Question) -> Answer:
        """See `Cohort`."""
        run = self.run
        started = time.monotonic()
        is_training = question.phase == TRAIN
        template = run.model.expected_reply if is_training else lambda partition: question.sums
        parts = question.parts
        if question.round == run.last_round < run.num_rounds:
            parts = {
                partition: {**parts.get(partition, {}), LAST_ROUND: True}
                for partition in question.clients
            }
        header = Header(run.name, question.phase, question.round)
        check = partial(self._check, question)
        answer = self.send(header, question.clients, check, parts, template)
        if question.is_recorded:
            self.record(answer, started, in_round=True)
        if question.phase not in FIGURES_ALONE:
            self.check_enough(answer)
        for partition, reply in answer.replies.items():
            if CONFUSION in reply.parts:
                run.confusions[partition] = reply.parts[CONFUSION]
        return answer

    def _check(self, question: Question, reply: Reply) -> None:
        """Refuse more examples than the client described or trained on before, impossible numbers
        of steps and of confusions, and a contribution that the question does not allow.

        Raises
        ------
        MessageError
        """
        run = self.run
        described = run.federation.examples.get(reply.partition)
        expected = run.state.examples.get(reply.partition, described)
        claim = reply.num_examples
        is_training = question.phase == TRAIN
        if expected is not None and (claim > expected or (is_training and claim != expected)):
            allowed = "exactly" if is_training else "at most"
            raise MessageError(
                f"claims {claim} examples; allowed are {allowed} the {expected} that it described"
                " or trained on before",
                key="num-examples",
            )
        if is_training:
            check_steps(
                reply.metrics.get("steps"),
                claim,
                run.config.local_epochs,
                self._batch_size,
                self._epoch_factor,
            )
        if CONFUSION in reply.parts:
            _check_confusion(run, reply)
        if question.check is not None:
            question.check(Statistics(dict(reply.arrays), claim, reply.metrics))


def _accepted(reply: Reply, partition: int, sent: Sent, expected: Arrays, check: Check) -> Reply:
    """A valid reply, with the rounding errors of the model that was sent: the difference from the
    exact model is then the change that the client made.

    Raises
    ------
    MessageError
        If it is that of another client, or starts from another personal state; or if its arrays,
        figures or other values are not allowed. A single negative running variance would spoil the
        average.
    """
    stamp = sent.request.stamp
    if reply.partition != partition:
        raise MessageError(
            f"it has changed its partition-id to {reply.partition}", key="other-partition"
        )
    if reply.restored is not None and not 0 <= reply.restored < stamp:
        raise MessageError(
            f"it started from a state of round {reply.restored}; the request names round {stamp}",
            key="other-state",
        )
    check_arrays(reply.arrays, expected)
    for name, array in reply.arrays.items():
        if name.endswith("running_var") and (array < 0).any():
            raise MessageError(f"{name} has negative variances", key="negative-variance")
    check_sent(reply.metrics)
    check(reply)
    if not sent.errors:
        return reply
    exact = {
        name: array + sent.errors[name] if name in sent.errors else array
        for name, array in reply.arrays.items()
    }
    return replace(reply, arrays=exact)


def _check_confusion(run: Run, reply: Reply) -> None:
    num_test = run.federation.descriptions[reply.partition].statistics.get("num_test")
    if num_test is None or reply.header.round != run.last_round:
        raise MessageError(
            "counts of true and predicted classes are not expected", key="unexpected-confusion"
        )
    num_classes = len(run.federation.class_titles(reply.partition))
    check_confusion(reply.parts[CONFUSION], num_classes, num_test)

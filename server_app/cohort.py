"""The clients of a run as their server sees them: in the open, each client's contribution.

In `curvfed.server_app.secure.masked_cohort` the server sees only sums. The loop chooses once; users
of the contributions do not see the choice.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flwr.app import ArrayRecord

from curvfed.server_app.answer import Answer, parts_size
from curvfed.server_app.run import PHASE_SILENCE, Run, check_enough
from curvfed.strategies.base.figures import check_sent
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import (
    MessageError,
    check_arrays,
    check_confusion,
    check_steps,
    check_variances,
)
from curvfed.strategies.wire.codec import EXACT, encode_arrays
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
from curvfed.tasks.class_names import titles
from curvfed.tasks.kinds import KINDS

Check = Callable[[Reply], None]
"""Refuses a bad reply with a MessageError."""

FIGURES_ALONE = (EVALUATE, FINE_TUNE, MEASURE)
"""Phases without a minimum number of replies."""

Template = Callable[[int], Arrays]
"""The names, shapes and dtypes of the arrays that a client, by partition, must send."""


@dataclass(frozen=True, eq=False)
class Question:
    """A question to some clients, sent with the model.

    Attributes
    ----------
    phase : str
    round : int
    clients : sequence of int
        Partitions, ascending.
    sums : dict of str to array
        Arrays with the names and shapes of the sums that a client contributes; in `TRAIN` the
        method's own.
    bound : float
        Bound on the sums, per example; 0 for `secure.clip`. Only a secure sum needs it.
    check : callable, optional
        Refuses a contribution that is impossible, with a `MessageError`. A secure sum checks
        nothing: the user of its total does.
    parts : mapping of int to mapping
        Further values for each client.
    residues : ResidueServer, optional
        Decodes the sums, if they are of residues.
    is_recorded : bool
        Whether the cohort records the phase as soon as the replies are there; otherwise whoever
        asks does, with further figures.
    """

    phase: str
    round: int
    clients: Sequence[int]
    sums: Arrays = field(default_factory=dict)
    bound: float = 0.0
    check: Callable[[Statistics], object] | None = None
    parts: Mapping[int, Parts] = field(default_factory=dict)
    residues: ResidueServer | None = None
    is_recorded: bool = False


class Cohort(ABC):
    """Asks clients of a run, and gives their contributions.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @abstractmethod
    def begin(self) -> None:
        """Ask for the facts that a new run's questions need."""

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
        has_model = template is not None
        models = {client: run.model.sent_to(client) if has_model else {} for client in clients}
        requests = self._requests(header, models, parts, has_model)

        def say(done: int, total: int) -> None:
            text = f"{header.phase}: {done} of {total} clients"
            run.progress.say(header.round, text, PHASE_SILENCE)

        received, failures, seconds = exchange(
            run.grid,
            {nodes[client]: request for client, request in requests.items()},
            run.config.round_timeout,
            say,
            run.precision,
        )
        failed = {
            client: failures[nodes[client]] for client in clients if nodes[client] in failures
        }
        reasons = {client: str(error) for client, error in failed.items()}
        away = {client for client, error in failed.items() if error.kind in AWAY}
        replies: dict[int, Reply] = {}
        without_keys = set()
        rounding_errors = {key: run.precision.lost(model) for key, model in _distinct(models)}
        for client in sorted(set(clients) - reasons.keys()):
            reply = received[nodes[client]]
            try:
                if WITHOUT_KEYS in reply.parts:
                    without_keys.add(client)
                    raise MessageError("it lacks the keys of its group", key="without-keys")
                _check_sender(reply, client, requests[client].stamp)
                check_arrays(reply.arrays, template(client) if template else {})
                check_variances(reply.arrays)
                check_sent(reply.metrics)
                check(reply)
            except MessageError as error:
                reasons[client] = str(error)
                continue
            # The model was rounded when it was sent. With the rounding errors added, the difference
            # from the exact model is the change that the client made.
            errors = rounding_errors[id(models[client])]
            exact = {
                name: array + errors[name] if name in errors else array
                for name, array in reply.arrays.items()
            }
            replies[client] = replace(reply, arrays=exact)
        reasons = dict(sorted(reasons.items()))
        for client, reason in reasons.items():
            log.warning(
                "round %d: dropped the reply of partition %d: %s", header.round, client, reason
            )
        if run.fixed and has_model:
            # Failed clients may have lost the fixed parameters; the next request sends them again.
            run.state.fixed_holders = sorted(
                (set(run.state.fixed_holders) | replies.keys()) - reasons.keys()
            )
        waited = {client: seconds.get(nodes[client], math.nan) for client in clients}
        down = {client: self._bytes_down(requests[client], models[client]) for client in clients}
        up = {client: self._bytes_up(reply) for client, reply in replies.items()}
        return Answer(
            header,
            replies,
            reasons,
            waited,
            down,
            up,
            without_keys=frozenset(without_keys),
            away=frozenset(away),
        )

    def _requests(
        self,
        header: Header,
        models: Mapping[int, Arrays],
        parts: Mapping[int, Parts],
        has_model: bool,
    ) -> dict[int, Request]:
        """The request to each client; without a model it has only further values."""
        run = self.run
        request = Request(header, facts=run.federation.facts)
        if not has_model:
            return {client: replace(request, parts=parts.get(client, {})) for client in models}
        fixed = encode_arrays(run.fixed)
        records = {key: encode_arrays(model, run.precision) for key, model in _distinct(models)}
        requests = {}
        for client, model in models.items():
            requests[client] = replace(
                request,
                stamp=run.state.stamps.get(client, 0),
                arrays=records[id(model)],
                fixed=ArrayRecord() if client in run.state.fixed_holders else fixed,
                parts=parts.get(client, {}),
                holders=run.holders_of(client),
            )
        return requests

    def _bytes_down(self, request: Request, model: Arrays) -> int:
        """Bytes of a request's arrays and parts."""
        fixed = EXACT.size(self.run.fixed) if request.fixed else 0
        return self.run.precision.size(model) + fixed + parts_size(request.parts)

    def _bytes_up(self, reply: Reply) -> int:
        """Bytes of a reply's arrays and parts, without the confusion counts: a resumed run then has
        the bytes of an uninterrupted one."""
        parts = {name: value for name, value in reply.parts.items() if name != CONFUSION}
        return self.run.precision.size(reply.arrays) + parts_size(parts)

    def record(self, answer: Answer, started: float, in_round: bool) -> None:
        """Record an answer to a question that was asked at this time, without further figures."""
        row = answer.row(self.run.federation) | {"seconds": time.monotonic() - started}
        self.run.record(answer, row, in_round=in_round)

    @abstractmethod
    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """The clients that must be asked for these to have scores."""


class OpenCohort(Cohort):
    """The server sees each client's contribution."""

    def begin(self) -> None:
        """Nothing."""

    def ask(self, question: Question) -> Answer:
        """See `Cohort`."""
        run = self.run
        started = time.monotonic()

        def check_open(reply: Reply) -> None:
            check_reply(run, reply)
            if question.check is not None:
                question.check(Statistics(dict(reply.arrays), reply.num_examples, reply.metrics))

        is_training = question.phase == TRAIN
        template = run.model.expected_reply if is_training else lambda partition: question.sums
        parts = question.parts
        if question.round == run.last_round < run.config.num_rounds:
            parts = {partition: {LAST_ROUND: True} for partition in question.clients}
        header = run.header(question.phase, question.round)
        answer = self.send(header, question.clients, check_open, parts, template)
        if question.is_recorded:
            self.record(answer, started, in_round=True)
        if question.phase not in FIGURES_ALONE:
            check_enough(answer, run.config.min_replies)
        for partition, reply in answer.replies.items():
            if CONFUSION in reply.parts:
                run.confusions[partition] = reply.parts[CONFUSION]
        return answer

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """These clients."""
        return list(clients)


def check_reply(run: Run, reply: Reply) -> None:
    """Refuse more examples than the client described or trained on before, and impossible numbers
    of steps and of confusions.

    Raises
    ------
    MessageError
    """
    described = run.federation.examples.get(reply.partition)
    expected = run.state.examples.get(reply.partition, described)
    claim = reply.num_examples
    is_training = reply.header.phase == TRAIN
    if expected is not None and (claim > expected or (is_training and claim != expected)):
        raise MessageError(f"claims {claim} examples; it described {expected}", key="num-examples")
    if is_training:
        config = run.config
        # A batch of clusters counts all its nodes, at least one of which is a training node.
        size = config.batch_size
        if not KINDS[run.federation.facts.task].batches_training_only:
            size = min(size, 1)
        factor = learner_class(config.row).epoch_factor
        check_steps(reply.metrics.get("steps"), claim, config.local_epochs, size, factor)
    if CONFUSION in reply.parts:
        _check_confusion(run, reply)


def _distinct(models: Mapping[int, Arrays]) -> Iterator[tuple[int, Arrays]]:
    """Each object once, by its id: clients that are sent the same one share its encoding."""
    yield from {id(model): model for model in models.values()}.items()


def _check_sender(reply: Reply, partition: int, stamp: int) -> None:
    """Refuse a reply of another client, or from another personal state than `stamp`."""
    if reply.partition != partition:
        raise MessageError(
            f"it has changed its partition-id to {reply.partition}", key="other-partition"
        )
    if reply.restored is not None and not 0 <= reply.restored < stamp:
        raise MessageError(
            f"it started from a state of round {reply.restored}; the request names round {stamp}",
            key="other-state",
        )


def _check_confusion(run: Run, reply: Reply) -> None:
    num_test = run.federation.descriptions[reply.partition].statistics.get("num_test")
    if num_test is None or reply.header.round != run.last_round:
        raise MessageError(
            "counts of true and predicted classes are not expected", key="unexpected-confusion"
        )
    num_classes = len(class_titles(run, reply.partition))
    check_confusion(reply.parts[CONFUSION], num_classes, num_test)


def class_titles(run: Run, partition: int) -> list[str]:
    """A client's classes in the order of its logits, as the report names them."""
    description = run.federation.descriptions[partition]
    return titles(description.space, run.federation.facts.class_names or description.class_names)

"""The clients of a run as their server sees them: in the open, each client's contribution.

In `curvfed.server_app.secure.masked_cohort` the server sees only sums. The loop chooses once; who
uses the contributions does not know which it was.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from curvfed.server_app.phase import Check, ClientRequest, Phase, run_phase
from curvfed.server_app.progress import PHASE_SILENCE
from curvfed.server_app.run import Run, check_enough
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.wire.checks import (
    MessageError,
    check_confusion,
    check_steps,
    check_variances,
)
from curvfed.strategies.wire.messages import (
    CONFUSION,
    EVALUATE,
    FINE_TUNE,
    LAST_ROUND,
    MEASURE,
    TRAIN,
    Header,
    Parts,
    Reply,
)
from curvfed.tasks.class_names import titles
from curvfed.tasks.kinds import KINDS

FIGURES_ALONE = (EVALUATE, FINE_TUNE, MEASURE)
"""Phases of which a run needs no minimum number of replies."""

Template = Callable[[int], Arrays]
"""The names, shapes and dtypes of the arrays that a client, by partition, must send."""


@dataclass(frozen=True, eq=False)
class Question:
    """What some clients are asked, beside the model that they are sent.

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


@dataclass(frozen=True)
class Answer:
    """What the clients answered.

    Attributes
    ----------
    phase : Phase
        For the tables of the run directory.
    contributions : dict of int to Statistics
        By partition; after a secure sum a single one, for all clients together.
    seconds : float
        From the request to the last reply.
    """

    phase: Phase
    contributions: dict[int, Statistics]
    seconds: float


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
        """Send the model to some clients and collect what they contribute.

        Raises
        ------
        RoundError
            If too few clients contribute.
        """

    def send(
        self,
        header: Header,
        clients: Iterable[int],
        check: Check,
        parts: Mapping[int, Parts],
        template: Template | None,
    ) -> Phase:
        """Run a phase that sends each client the current model and the further values `parts`, or
        without a template these alone."""
        run = self.run
        holders = set(run.state.fixed_holders)
        requests = {
            partition: ClientRequest(parts=parts.get(partition, {})) for partition in clients
        }
        if template is not None:
            for partition, request in requests.items():
                requests[partition] = replace(
                    request,
                    arrays=run.model.sent_to(partition),
                    stamp=run.state.stamps.get(partition, 0),
                    fixed=run.fixed if partition not in holders else {},
                    template=template(partition),
                )

        def say(done: int, total: int) -> None:
            text = f"{header.phase}: {done} of {total} clients"
            run.progress.say(header.round, text, PHASE_SILENCE)

        phase = run_phase(
            run.grid,
            run.federation,
            header,
            requests,
            check,
            timeout=run.config.round_timeout,
            on_reply=say,
            precision=run.precision,
        )
        if run.fixed and template is not None:
            # Failed clients may have lost the fixed parameters; the next request sends them again.
            run.state.fixed_holders = sorted(
                (holders | phase.replies.keys()) - phase.reasons.keys()
            )
        return phase

    def record(self, phase: Phase, started: float, in_round: bool) -> None:
        """Record a phase that began at this time and has no further figures."""
        row = phase.row(self.run.federation) | {"seconds": time.monotonic() - started}
        self.run.record(phase, row, in_round=in_round)

    @abstractmethod
    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """The clients that must be asked for these to have scores."""


class OpenCohort(Cohort):
    """The server sees each client's contribution."""

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
        phase = self.send(header, question.clients, check_open, parts, template)
        if question.is_recorded:
            self.record(phase, started, in_round=True)
        if question.phase not in FIGURES_ALONE:
            check_enough(phase, run.config.min_replies)
        for partition, reply in phase.replies.items():
            if CONFUSION in reply.parts:
                run.confusions[partition] = reply.parts[CONFUSION]
        contributions = {
            partition: Statistics(dict(reply.arrays), reply.num_examples, reply.metrics)
            for partition, reply in phase.replies.items()
        }
        return Answer(phase, contributions, time.monotonic() - started)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """These clients."""
        return list(clients)


def check_reply(run: Run, reply: Reply) -> None:
    """Refuse a changed number of examples, an impossible number of steps, impossible running
    statistics, and impossible confusion counts.

    Raises
    ------
    MessageError
    """
    expected = run.state.examples.get(reply.partition)
    if reply.header.phase == TRAIN:
        if expected is None:
            expected = run.federation.descriptions[reply.partition].statistics.get("num_train")
        if expected is not None and reply.num_examples != expected:
            raise MessageError(
                f"num_examples is {reply.num_examples}; it was {expected} before",
                key="num-examples",
            )
        config = run.config
        # A batch of clusters counts all its nodes, at least one of which is a training node.
        size = config.batch_size
        if not KINDS[run.federation.facts.task].batches_training_only:
            size = min(size, 1)
        check_steps(reply.metrics.get("steps"), reply.num_examples, config.local_epochs, size)
        check_variances(reply.arrays)
    elif expected is not None and reply.num_examples > expected:
        raise MessageError(
            f"num_examples is {reply.num_examples}; it trained on {expected}",
            key="num-examples",
        )
    if CONFUSION in reply.parts:
        _check_confusion(run, reply)


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

"""The clients of a run as their server sees them: in the open, each client's contribution.

In `curvfed.server_app.secure.masked_cohort` the server sees only sums. The loop chooses once; who
uses the contributions does not know which it was.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from curvfed.server_app.phase import Check, ClientRequest, Phase
from curvfed.server_app.progress import PHASE_SILENCE
from curvfed.server_app.reply_checks import check_reply
from curvfed.server_app.run import Run, check_enough
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.statistics import Arrays, Statistics
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
        phase = send_model(run, header, question.clients, template, check_open, parts)
        if question.is_recorded:
            self.record(phase, started, in_round=True)
        if question.phase not in FIGURES_ALONE:
            check_enough(phase, run.config.min_replies)
        for partition, reply in phase.replies.items():
            if CONFUSION in reply.parts:
                run.confusions[partition] = reply.parts[CONFUSION]
        return Answer(phase, contributions(phase), time.monotonic() - started)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """These clients."""
        return list(clients)


def send_model(
    run: Run,
    header: Header,
    clients: Iterable[int],
    template: Template,
    check: Check,
    parts: Mapping[int, Parts],
) -> Phase:
    """Run a phase that sends each client the current model; `parts` are a protocol's further
    values."""
    holders = set(run.state.fixed_holders)
    requests = {
        partition: ClientRequest(
            arrays=run.model.sent_to(partition),
            stamp=run.state.stamps.get(partition, 0),
            fixed=run.fixed if partition not in holders else {},
            parts=parts.get(partition, {}),
            template=template(partition),
        )
        for partition in clients
    }
    phase = run.send(
        header,
        requests,
        check,
        lambda done, total: run.progress.say(
            header.round, f"{header.phase}: {done} of {total} clients", PHASE_SILENCE
        ),
    )
    if run.fixed:
        # Failed clients may have lost the fixed parameters; the next request sends them again.
        run.state.fixed_holders = sorted((holders | phase.replies.keys()) - phase.reasons.keys())
    return phase


def contributions(phase: Phase) -> dict[int, Statistics]:
    """The clients' contributions by partition.

    With a `wire-precision` below float32, the rounding error of the model sent to a client is added
    to its reply, so that the difference equals the change that the client made.
    """
    sent = {}
    if any(reply.arrays for reply in phase.replies.values()):
        sent = {id(request.arrays): request.arrays for request in phase.sent.values()}
    rounding_losses = {key: phase.precision.lost(arrays) for key, arrays in sent.items()}
    contributed = {}
    for partition, reply in phase.replies.items():
        losses = rounding_losses.get(id(phase.sent[partition].arrays), {})
        arrays = {
            name: array + losses[name] if name in losses else array
            for name, array in reply.arrays.items()
        }
        contributed[partition] = Statistics(arrays, reply.num_examples, reply.metrics)
    return contributed

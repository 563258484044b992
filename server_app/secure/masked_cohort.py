"""The clients of a run under secure sums: the server sees only sums over them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from curvfed.server_app.answer import Answer
from curvfed.server_app.cohort import Check, Cohort, Question
from curvfed.server_app.run import RoundError, Run, check_enough
from curvfed.server_app.secure.masked_phases import check_session, masked_phase, residue_phase
from curvfed.server_app.secure.sums_of_run import SumsOfRun
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.checks import check_groups
from curvfed.strategies.config.masked import basis_of
from curvfed.strategies.config.masked_vector import check_mean, mean_update
from curvfed.strategies.config.privacy import check_enough_clients, sum_noise
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.privacy.noise import CLIP, split_clip
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import TRAIN, Header, Parts, Reply


class MaskedCohort(Cohort):
    """The server sees one contribution, that of all clients together."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        described = run.federation.descriptions
        stated = {}
        if any(client.group for client in described.values()):
            check_groups(run.config)
            stated = {
                partition: client.group or (partition,) for partition, client in described.items()
            }
        self._sums = SumsOfRun(run.config, run.config.secure, notes=run.notes, stated=stated)

    def check(self, phase: str, clients: Sequence[int]) -> None:
        """Refuse clients that no secure sum is possible over, before any of them is asked.

        Raises
        ------
        ConfigError
        """
        check_enough_clients(self.run.config, len(clients))
        for group in self.groups(clients, 1):
            check_session(self.run.header(phase), group, self._sums)

    def groups(self, clients: Sequence[int], number: int) -> list[list[int]]:
        """The clients of each sum: the fixed groups of real nodes, or a number of groups.

        Raises
        ------
        ConfigError
            If no group of real nodes is complete.
        """
        try:
            return self._sums.groups(clients, number)
        except SecureSumError as error:
            raise ConfigError(str(error), key=error.kind) from None

    def ask(self, question: Question) -> Answer:
        """See `Cohort`."""
        run = self.run
        model = run.model
        is_training = question.phase == TRAIN
        step = partial(self._run_step, question)
        header = run.header(question.phase, question.round)
        basis = basis_of(model.sent_to(0), run.fixed, run.federation.facts, run.requested)
        if question.residues is not None:
            answer, total = residue_phase(
                step, header, question.clients, self._sums, question.residues, basis=basis
            )
            return replace(answer, total=total)
        like = model.summand() if is_training else question.sums
        sent = model.sent_to(0)
        clip = run.config.update_clip
        if CLIP in sent:
            _, clip = split_clip(sent)
        bound = question.bound or clip
        noise = sum_noise(run.config, question.phase)
        answer, total = masked_phase(
            step, header, question.clients, self._sums, like, bound, noise, basis=basis
        )
        if is_training:
            check_enough(answer, run.config.min_replies)
            try:
                check_mean(total, sent, clip)
            except SecureSumError as error:
                raise RoundError(f"round {question.round}: {error}", key=error.kind) from None
            total = replace(total, arrays=mean_update(total, like, sent))
        return replace(answer, total=total)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """All clients, if there are any to score: a sum has figures for all or for none."""
        return list(self.run.federation.nodes) if clients else []

    def _run_step(
        self,
        question: Question,
        header: Header,
        parts: Mapping[int, Parts],
        check: Check,
        template: Arrays | None = None,
    ) -> Answer:
        """Run a step of a secure sum: the masked phase, which has a template, or a phase of keys,
        shares or signatures."""
        started = time.monotonic()

        def check_masked(reply: Reply) -> None:
            if reply.num_examples or reply.metrics:
                raise MessageError(
                    "a reply of a secure sum has figures that are not masked", key="open-figures"
                )
            check(reply)

        like = None if template is None else lambda client: template
        answer = self.send(header, parts, check_masked, parts, like)
        if template is None or question.is_recorded:
            in_round = question.phase == TRAIN or question.is_recorded
            self.record(answer, started, in_round)
        return answer

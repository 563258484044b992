"""The clients of a run under secure sums: the server sees only sums over them, in training,
evaluation and calibration."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.answer import Answer
from curvfed.server_app.cohort import Check, Cohort, Question
from curvfed.server_app.run import RoundError, Run, check_enough
from curvfed.server_app.secure import START_ALL, SumsOfRun
from curvfed.server_app.secure.secure_sum import secure_sum
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.privacy_noise import CLIP, honest_shares, split_clip
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.checks import check_groups
from curvfed.strategies.config.masked import basis_of
from curvfed.strategies.config.privacy import check_enough_clients, sum_noise
from curvfed.strategies.config.secure_phases import (
    Opening,
    check_mean,
    decoded,
    mean_update,
    sum_encoding,
    vector_length,
)
from curvfed.strategies.errors import ConfigError, HullError, SecureSumError
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, add
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import TRAIN, Header, Parts, Reply

SumGroup = Callable[..., tuple[Answer, NDArray[np.uint64]]]
"""Sums a vector of each client of a group: `secure_sum`, given all but the group, the modulus and
the length."""


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
            If there are fewer than two, or the threshold does not fit their number.
        """
        for group in self.groups(clients, 1):
            check_enough_clients(self.run.config, len(group))
            if len(group) == 2:
                log.warning("2 clients: each of them can compute the other's vector from the sum")
            try:
                self._session(self.run.header(phase), group)
            except SecureSumError as error:
                raise ConfigError(
                    f"secure sums of {len(group)} clients (secure.threshold, fraction-train):"
                    f" {error}",
                    key=error.kind,
                ) from None

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
        header = run.header(question.phase, question.round)
        sent = run.model.sent_to(0)
        sum_group = partial(
            secure_sum,
            partial(self._run_step, question),
            header,
            sums=self._sums,
            basis=basis_of(sent, run.fixed, run.federation.facts, run.requested),
        )
        if question.residues is not None:
            return self._sum_residues(header, question.clients, question.residues, sum_group)
        return self._sum_numbers(header, question, sent, sum_group)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """All clients, if there are any to score: a sum has figures for all or for none."""
        return list(self.run.federation.nodes) if clients else []

    def _sum_numbers(
        self, header: Header, question: Question, sent: Arrays, sum_group: SumGroup
    ) -> Answer:
        """Sum the clients' arrays and figures, and in training take the mean of their updates.

        Raises
        ------
        RoundError
            If fewer clients than the threshold stay to the end.
        """
        run = self.run
        sums = self._sums
        is_training = question.phase == TRAIN
        like = run.model.summand() if is_training else question.sums
        clip = split_clip(sent)[1] if CLIP in sent else run.config.update_clip
        number = len(question.clients)
        length = vector_length(sum(array.size for array in like.values()))
        residues = np.zeros(length, np.uint64)
        phases = []
        reasons = []
        excess = 0.0
        for group in self._groups(header, question.clients, 0 if sums.keys.fixed_groups else 1):
            try:
                phase, group_sum = sum_group(group, SUM_PRIME, length, num_encoded=number)
            except SecureSumError as error:
                reasons.append(str(error))
                continue
            phases.append(phase)
            residues = add(residues, group_sum, SUM_PRIME)
            # The members add more noise, so that enough is left without some of their shares.
            needed = self._session(header, sorted(phase.replies)).needed
            excess += len(phase.replies) / honest_shares(len(phase.replies), needed)
        answer = self._joined(header, phases, reasons)
        encoding = sum_encoding(question.bound or clip or sums.keys.clip, number)
        total, means = decoded(residues, encoding, like)
        if share := means.get("clipped", (0.0, 0))[0]:
            log.warning(
                "%.0f%% of the updates were longer than secure.clip and were shortened to it",
                100 * share,
            )
        noise = sum_noise(run.config, question.phase) * excess**0.5
        total = replace(total, clients=len(answer.replies), noise=noise)
        answer = replace(answer, cohort=means)
        if is_training:
            check_enough(answer, run.config.min_replies)
            try:
                check_mean(total, sent, clip)
            except SecureSumError as error:
                raise RoundError(f"round {question.round}: {error}", key=error.kind) from None
            total = replace(total, arrays=mean_update(total, like, sent))
        return replace(answer, total=total)

    def _sum_residues(
        self, header: Header, clients: Sequence[int], half: ResidueServer, sum_group: SumGroup
    ) -> Answer:
        """Sum replies of residues, and decode them by groups of clients. A group that fails is
        logged and left out for good.

        The total has the number of groups left out, and the seconds of decoding.

        Raises
        ------
        RoundError
            If all groups fail.
        """
        client_groups = self._groups(header, clients, half.num_groups(len(clients)))
        phases = []
        decoded_sums = []
        reasons = []
        seconds = 0.0
        for group in client_groups:
            vectors = half.vectors(len(group))
            try:
                phase, residues = sum_group(group, vectors.modulus, vectors.length)
                started = time.monotonic()
                statistics = half.decode(residues, len(group))
                seconds += time.monotonic() - started
            except (SecureSumError, HullError) as error:
                reasons.append(str(error))
                continue
            phases.append(phase)
            decoded_sums.append(replace(statistics, clients=len(phase.replies)))
        answer = self._joined(header, phases, reasons)
        total = half.join(decoded_sums, max(map(len, client_groups)))
        costs = {"groups_left_out": len(reasons), "seconds_decoding": seconds}
        return replace(answer, total=replace(total, figures={**total.figures, **costs}))

    def _session(self, header: Header, clients: list[int]) -> Session:
        """The session of a sum over these clients, whose size of vectors does not matter."""
        sums = self._sums
        opening = Opening(target=header.phase, modulus=SUM_PRIME, length=1, clients=clients)
        return opening.session(header, sums.run, sums.keys, is_group=bool(sums.stated))

    def _groups(self, header: Header, clients: Sequence[int], number: int) -> list[list[int]]:
        """The clients of each sum of a phase; raises RoundError if no group is complete."""
        try:
            return self._sums.groups(clients, number)
        except SecureSumError as error:
            raise RoundError(
                f"round {header.round}, {header.phase}: {error}", key=error.kind
            ) from None

    def _joined(self, header: Header, phases: Sequence[Answer], reasons: Sequence[str]) -> Answer:
        """The phases of several groups as one, without the groups that failed for these reasons.

        Raises
        ------
        RoundError
            If too few clients are left.
        """
        place = f"round {header.round}, {header.phase}"
        min_replies = self.run.config.min_replies
        remedy = f"; {START_ALL}" if self._sums.stated else ""
        if not phases:
            raise RoundError(f"{place}: {'; '.join(reasons)}{remedy}", key="no-sum")
        for reason in reasons:
            log.warning("%s: a group of clients is left out: %s", place, reason)
        answer, *others = phases
        for phase in others:
            merged: dict[str, Any] = {
                name: getattr(answer, name) | getattr(phase, name)
                for name in ("replies", "reasons", "seconds", "bytes_down", "bytes_up")
            }
            answer = replace(answer, **merged)
        if reasons and len(answer.replies) < min_replies:
            raise RoundError(
                f"{place}: {len(answer.replies)} good replies, needed are {min_replies}"
                f" (min-replies): {'; '.join(reasons)}{remedy}",
                key="too-few-replies",
            )
        return answer

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

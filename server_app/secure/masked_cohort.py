"""The clients of a run under secure sums: the server sees only sums over groups of them, in
training, evaluation and calibration."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from curvfed.server_app.answer import Answer, Question, reason_texts
from curvfed.server_app.cohort import Check, Cohort
from curvfed.server_app.run import RoundError, Run
from curvfed.server_app.secure.group_keys import GroupKeys
from curvfed.server_app.secure.groups import Group, Groups
from curvfed.server_app.secure.patience import ask_patiently
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.run_keys import OF_THE_SERVER
from curvfed.strategies.base.statistics import Arrays, Statistics, total
from curvfed.strategies.config.holders import COUNT_MODULUS, few_stay, holders_needed
from curvfed.strategies.config.masked import basis_of
from curvfed.strategies.config.run_config import plain
from curvfed.strategies.config.secure_phases import (
    MASKED,
    Opening,
    check_mean,
    decoded,
    joined_means,
    mean_update,
    session_of,
    sum_encoding,
    vector_length,
)
from curvfed.strategies.errors import ConfigError, HullError, SecureSumError
from curvfed.strategies.run_log import log
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, Residues
from curvfed.strategies.secure_sum.messages import Basis, MaskedInput
from curvfed.strategies.secure_sum.server import OTHER_BASIS, SumOfGroup
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import HOLDERS, TRAIN, Header, Parts, Reply

EXCHANGES = 3
"""Maximum number of exchanges of keys in a phase. Each follows the restart of a member."""

RESUME = (
    "a group is summed once all its nodes are there and take part: then start or resume the run"
)
"""The remedy where nodes are absent, or refuse."""

Sizes = tuple[int, int]
"""The modulus and the length of a group's vectors."""


@dataclass(frozen=True)
class Summed:
    """The sums of the groups in a phase.

    Attributes
    ----------
    answer : Answer
        With the replies that are in sums.
    sums : dict of group to uint64 array
    failed : dict of group to str
        The reason of each group without a sum.
    """

    answer: Answer
    sums: dict[Group, Residues]
    failed: dict[Group, str]


class MaskedCohort(Cohort):
    """The server sees one contribution, that of all clients together."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._guard = run.config.guard
        self.groups = Groups(run)
        # The reason by group, for groups without a count of holders.
        self._uncounted: dict[Group, str] = {}
        self._keys = GroupKeys(self._ask_for_keys, run.notes)

    def count_holders(self, clients: Sequence[int], number: int) -> None:
        """Count the members of each group that contribute to each class or entity, in a run with
        sums of single classes or entities.

        Parameters
        ----------
        clients : sequence of int
        number : int
            As `Groups.of` takes it.

        Raises
        ------
        RoundError
            If no group has a sum.
        """
        run = self.run
        names = run.federation.facts.class_names
        described = run.federation.descriptions
        if not (names and few_stay(run.config, [described[p].min_holders for p in clients])):
            return
        started = time.monotonic()
        question = Question(HOLDERS, 0, clients)
        sizes = dict.fromkeys(self._groups(question, number), (COUNT_MODULUS, len(names)))
        summed = self._sum(question, run.model.sent_to(0), sizes)
        self.record(summed.answer, started, in_round=run.method.is_one_shot)
        for group, counts in summed.sums.items():
            minima = [
                run.config.secure.min_holders or 1,
                *(described[member].min_holders for member in group),
            ]
            needed = max(holders_needed(minimum, len(group)) for minimum in minima)
            capped = np.minimum(counts, needed)
            few = int((capped < needed).sum())
            if few:
                log.info(
                    "fewer than %d members of a sum have %d of %d classes or entities: what is"
                    " computed from these stays at the clients",
                    needed,
                    few,
                    len(names),
                )
            run.state.holders.append(
                {"clients": list(group), "counts": capped.tolist(), "needed": needed}
            )
        self._uncounted = summed.failed
        self._answer(summed.answer, summed.failed)

    def scored_together(self, clients: Sequence[int]) -> list[int]:
        """All clients, if there are any to score: a sum has figures for all or for none."""
        return list(self.run.federation.nodes) if clients else []

    def ask(self, question: Question) -> Answer:
        """See `Cohort`."""
        if question.residues is not None:
            return self._sum_residues(question, question.residues)
        return self._sum_numbers(question)

    def _sum_numbers(self, question: Question) -> Answer:
        """Sum the clients' arrays and figures, and in training take the mean of their updates.

        Raises
        ------
        RoundError
            If no group has a sum, or too few clients are in sums.
        """
        run = self.run
        sent = run.model.sent_to(0)
        is_training = question.phase == TRAIN
        like = run.model.expected_reply(0) if is_training else question.sums
        clip = self._guard.limit(sent)
        bound = question.bound or clip or run.config.secure.clip
        length = vector_length(sum(array.size for array in like.values()))
        sizes = dict.fromkeys(self._groups(question, 0), (SUM_PRIME, length))
        summed = self._sum(question, sent, sizes)
        totals = []
        means = []
        failed = dict(summed.failed)
        for group, residues in summed.sums.items():
            encoding = sum_encoding(bound, len(group))
            of_group, figures = decoded(residues, encoding, like)
            noise = self._guard.noise(question.phase, len(group))
            of_group = replace(of_group, clients=len(group), noise=noise)
            if is_training:
                try:
                    check_mean(of_group, sent, clip)
                except SecureSumError as error:
                    failed[group] = str(error)
                    continue
            totals.append(of_group)
            means.append(figures)
        answer = self._answer(summed.answer, failed)
        together = total(totals)
        cohort = joined_means(means)
        if share := cohort.get("clipped", (0.0, 0))[0]:
            log.warning(
                "%.0f%% of the updates were longer than secure.clip and were shortened to it",
                100 * share,
            )
        if is_training:
            self.check_enough(answer)
            if "loss" not in cohort and not self._guard.is_private:
                log.warning(
                    "round %d: no member of the secure sum reports a loss; where training fails,"
                    " only the node's own log says so",
                    question.round,
                )
            together = replace(together, arrays=mean_update(together, like, sent))
        return replace(answer, total=together, cohort=cohort)

    def _sum_residues(self, question: Question, half: ResidueServer) -> Answer:
        """Sum replies of residues, and decode them by groups of clients. A group that fails is
        logged and left out for good.

        The total has the number of groups left out, and the seconds of decoding.

        Raises
        ------
        RoundError
            If all groups fail.
        """
        client_groups = self._groups(question, half.num_groups(len(question.clients)))
        sizes = {}
        for group in client_groups:
            vectors = half.vectors(len(group))
            sizes[group] = (vectors.modulus, vectors.length)
        summed = self._sum(question, self.run.model.sent_to(0), sizes)
        failed = dict(summed.failed)
        decoded_sums: list[Statistics] = []
        started = time.monotonic()
        for group, residues in summed.sums.items():
            try:
                statistics = half.decode(residues, len(group))
            except (SecureSumError, HullError) as error:
                failed[group] = str(error)
                continue
            decoded_sums.append(replace(statistics, clients=len(group)))
        seconds = time.monotonic() - started
        answer = self._answer(summed.answer, failed)
        joined = half.join(decoded_sums, max(map(len, client_groups)))
        costs = {"groups_left_out": len(failed), "seconds_decoding": seconds}
        return replace(answer, total=replace(joined, figures={**joined.figures, **costs}))

    def _groups(self, question: Question, number: int) -> list[Group]:
        """The groups of a phase; raises RoundError if none is complete."""
        try:
            return self.groups.of(question.clients, number)
        except ConfigError as error:
            place = self.run.place(Header(self.run.name, question.phase, question.round))
            raise RoundError(f"{place}: {error}", key=error.kind) from None

    def _sum(self, question: Question, sent: Arrays, sizes: Mapping[Group, Sizes]) -> Summed:
        """Sum the masked vectors of each group."""
        run = self.run
        header = Header(run.name, question.phase, question.round)
        sums = {}
        failed: dict[Group, str] = {}
        for group, size in sizes.items():
            if group in self._uncounted:
                # Its members refuse every sum of single classes or entities.
                failed[group] = self._uncounted[group]
                continue
            session = session_of(header, run.config, group, size)
            sums[group] = SumOfGroup(session, self._basis(group, sent))
        key_failures: dict[Group, dict[int, str]] = {}
        empty = Answer(header, {}, {}, {}, {}, {})
        answer = empty
        started = time.monotonic()
        pending = list(sums)
        for _ in range(EXCHANGES):
            if new := [group for group in pending if group not in self._keys.texts]:
                key_failures |= self._keys.exchange(header, new)
            keyed = [group for group in pending if group in self._keys.texts]
            if keyed:
                later = self._ask_for_vectors(question, sums, keyed)
                answer = later if answer is empty else answer.joined(later)
            for group in keyed:
                if answer.without_keys.intersection(group):
                    del self._keys.texts[group]
                    sums[group].forget()
            pending = [
                group
                for group in pending
                if group not in key_failures and group not in self._keys.texts
            ]
            if not pending:
                break
        for group, text in failed.items():
            answer = answer.without(dict.fromkeys(group, text))
        totals = {}
        for group, of_group in sums.items():
            missing = key_failures.get(group) or {
                member: answer.reasons.get(member, "no keys") for member in of_group.missing
            }
            if missing:
                texts = "; ".join(reason_texts(missing, self.run.federation)[:3])
                failed[group] = f"partitions {list(group)} have no sum: {texts}"
                answer = answer.without(dict.fromkeys(group, texts))
            else:
                totals[group] = of_group.total()
        if question.is_recorded:
            self.record(answer, started, in_round=True)
        return Summed(answer, totals, failed)

    def _basis(self, group: Group, sent: Arrays) -> Basis:
        """The basis of a group's vectors; its members have equal states."""
        run = self.run
        stamp = run.state.stamps.get(group[0], 0)
        facts = run.federation.facts
        holders = run.state.holders_of(group[0]) if run.state.holders else None
        return basis_of(sent, run.fixed, facts, run.requested, stamp, holders)

    def _began_with(self, error: SecureSumError) -> str:
        """The keys that a resume has changed, with the values that the members' vectors depend
        on, in words; "" for an error with another cause."""
        if error.kind != OTHER_BASIS:
            return ""
        changed = self.run.directory.changed.items()
        keys = [f"{key}={plain(value)}" for key, value in changed if key not in OF_THE_SERVER]
        return f": {', '.join(keys)}" if keys else ", num-rounds among them"

    def _ask_for_vectors(
        self, question: Question, sums: Mapping[Group, SumOfGroup], keyed: Sequence[Group]
    ) -> Answer:
        """Ask the members of groups that have exchanged keys for their masked vectors."""
        header = Header(self.run.name, question.phase, question.round)
        sum_of = {}
        parts: dict[int, Parts] = {}
        for group in keyed:
            session = sums[group].session
            for member, texts in self._keys.texts[group].items():
                opening = Opening(
                    modulus=session.modulus, length=session.length, **texts.model_dump()
                )
                parts[member] = opening.as_parts()
                sum_of[member] = sums[group]

        def collect(reply: Reply) -> None:
            if reply.num_examples or reply.metrics:
                raise MessageError(
                    "a reply of a secure sum has figures that are not masked", key="open-figures"
                )
            try:
                message = MaskedInput.from_parts(reply.parts)
                sum_of[reply.partition].receive(reply.partition, reply.arrays[MASKED], message)
            except SecureSumError as error:
                raise MessageError(f"{error}{self._began_with(error)}", key=error.kind) from None

        def template(client: int) -> Arrays:
            return {MASKED: np.zeros(sum_of[client].session.length, np.uint64)}

        def ask(clients: Sequence[int]) -> Answer:
            return self.send(header, clients, collect, parts, template)

        return ask_patiently(self.run, header, keyed, ask)

    def _ask_for_keys(
        self,
        header: Header,
        of_groups: Collection[Group],
        parts: Mapping[int, Parts],
        check: Check,
    ) -> Answer:
        """Ask the members of groups for keys, or for their texts to each other."""
        started = time.monotonic()

        def ask(clients: Sequence[int]) -> Answer:
            return self.send(header, clients, check, parts, None)

        answer = ask_patiently(self.run, header, of_groups, ask)
        self.record(answer, started, in_round=True)
        return answer

    def _answer(self, answer: Answer, failed: Mapping[Group, str]) -> Answer:
        """The answer without the groups that failed.

        Raises
        ------
        RoundError
            If no group is left, or too few clients.
        """
        if not failed:
            return answer
        place = self.run.place(answer.header)
        remedy = f"; {RESUME}" if self.groups.stated else ""
        left = answer.without(
            {member: reason for group, reason in failed.items() for member in group}
        )
        texts = "; ".join(failed.values())
        if not left.replies:
            raise RoundError(f"{place}: {texts}{remedy}", key="no-sum")
        for reason in failed.values():
            log.warning("%s: a group of clients is left out: %s", place, reason)
        min_replies = self.run.config.min_replies
        if len(left.replies) < min_replies:
            raise RoundError(
                f"{place}: {len(left.replies)} good replies, needed are {min_replies}"
                f" (min-replies): {texts}{remedy}",
                key="too-few-replies",
            )
        return left

"""The keys of a run's groups: each group exchanges them once, by two messages, and again after one
of its members has lost its own."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from curvfed.server_app.answer import Answer
from curvfed.server_app.cohort import Check
from curvfed.server_app.secure.groups import UNSIGNED, Group
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum.messages import (
    BytesByPartition,
    PublicKey,
    public_keys_message,
)
from curvfed.strategies.secure_sum.server import unsigned
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import AGREE, KEYS, Header, Parts, Reply

Ask = Callable[[Header, Collection[Group], Mapping[int, Parts], Check], Answer]
"""Asks the members of groups for replies without arrays: `ask(header, groups, parts by partition,
check of a reply)`."""

T = TypeVar("T", PublicKey, BytesByPartition)


class GroupKeys:
    """The groups that have exchanged keys, with the texts of the members to each other.

    Parameters
    ----------
    ask : callable
    notes : dict of str to str
        The run's warnings by key.

    Attributes
    ----------
    texts : dict of group to dict of int to BytesByPartition
        For each group with keys, the encrypted texts of its peers to each member. A group that is
        taken out exchanges keys anew.
    """

    def __init__(self, ask: Ask, notes: dict[str, str]) -> None:
        self._ask = ask
        self._notes = notes
        self.texts: dict[Group, dict[int, BytesByPartition]] = {}

    def exchange(self, header: Header, groups: Iterable[Group]) -> dict[Group, dict[int, str]]:
        """Exchange the keys of groups without keys.

        A group with a member that was restarted between the two messages stays without keys.

        Returns
        -------
        dict of group to dict of int to str
            For each group that failed, the reasons by partition.
        """
        public = self._public_keys(header, list(groups))
        failed = {group: reasons for group, (_, reasons) in public.items() if reasons}
        keys = {group: keys for group, (keys, reasons) in public.items() if not reasons}
        written = self._written(header, keys)
        for group, (texts, reasons) in written.items():
            if reasons:
                failed[group] = reasons
            else:
                self.texts[group] = {
                    member: BytesByPartition.of(
                        {peer: texts[peer][member] for peer in group if peer != member}
                    )
                    for member in group
                }
        return failed

    def _public_keys(
        self, header: Header, groups: list[Group]
    ) -> dict[Group, tuple[dict[int, PublicKey], dict[int, str]]]:
        """By group, the members' keys, and the reasons of the members without."""
        keys: dict[int, PublicKey] = {}

        def receive(reply: Reply) -> None:
            keys[reply.partition] = _read(PublicKey, reply.parts)

        parts: dict[int, Parts] = {}
        for group in groups:
            parts |= {member: {"members": list(group)} for member in group}
        answer = self._ask(replace(header, phase=KEYS), groups, parts, receive)
        received = {}
        for group in groups:
            reasons = _reasons_of(group, answer)
            of_group = {member: keys[member] for member in group if member in keys}
            if not reasons:
                try:
                    signatures = {member: key.signature for member, key in of_group.items()}
                    if unsigned(signatures):
                        self._notes["unsigned"] = UNSIGNED
                except SecureSumError as error:
                    reasons = {group[0]: str(error)}
            received[group] = (of_group, reasons)
        return received

    def _written(
        self, header: Header, keys: Mapping[Group, Mapping[int, PublicKey]]
    ) -> dict[Group, tuple[dict[int, dict[int, bytes]], dict[int, str]]]:
        """By group, the texts of each member to its peers, and the reasons of the members
        without."""
        texts: dict[int, dict[int, bytes]] = {}
        group_of = {member: group for group in keys for member in group}

        def receive(reply: Reply) -> None:
            written = _read(BytesByPartition, reply.parts).by_partition
            peers = [peer for peer in group_of[reply.partition] if peer != reply.partition]
            if sorted(written) != peers:
                raise MessageError("it did not write to each of its peers", key="texts")
            texts[reply.partition] = written

        parts: dict[int, Parts] = {}
        for group, of_group in keys.items():
            parts |= dict.fromkeys(group, public_keys_message(of_group).as_parts())
        if not parts:
            return {}
        answer = self._ask(replace(header, phase=AGREE), keys, parts, receive)
        return {
            group: (texts, _reasons_of(group, answer))
            for group in keys
            if not answer.without_keys.intersection(group)
        }


def _reasons_of(group: Group, answer: Answer) -> dict[int, str]:
    return {
        member: answer.reasons.get(member, "no reply")
        for member in group
        if member not in answer.replies
    }


def _read(kind: type[T], parts: Mapping[str, object]) -> T:
    """A message of a member; a wrong one is a bad reply, which is dropped."""
    try:
        return kind.from_parts(parts)
    except SecureSumError as error:
        raise MessageError(str(error), key=error.kind) from None

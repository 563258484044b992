"""Members that vanish, or start again without their keys, at any message of a sum: the server has
the exact sum of all, or none."""

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import RecordDict
from secure_sums import BASIS, masked_input, plain_sum, session, vectors

from curvfed.client_app import secure, secure_keys
from curvfed.server_app.answer import Answer, Question
from curvfed.server_app.cohort import Check, Template
from curvfed.server_app.federation import Federation
from curvfed.server_app.secure.masked_cohort import MaskedCohort, Summed
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.secure_phases import MASKED
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import (
    AGREE,
    KEYS,
    TRAIN,
    WITHOUT_KEYS,
    Facts,
    Header,
    Parts,
    Reply,
    Request,
)

pytestmark = pytest.mark.usefixtures("clock")

MODULUS = 2**61 - 1
LENGTH = 5
FATES = ("answers", "misses it", "its reply is lost", "starts again")
"""What can become of a member at a message."""


class Vanishing(MaskedCohort):
    """A server of 3 to 9 members, each with a fate at each message; one in ten stays away for good
    after some messages."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.clients = tuple(range(int(self.rng.integers(3, 10))))
        self.last_messages = dict.fromkeys(self.clients, 10**9)
        for client in self.clients:
            if self.rng.random() < 0.1:
                self.last_messages[client] = int(self.rng.integers(0, 5))
        self.states: dict[int, RecordDict] = {}
        """Those of Flower, at the members."""
        self.config = parse({"method": "fedavg", "secure-sum": True})
        nodes = {client: client for client in self.clients}
        run: Any = SimpleNamespace(
            config=self.config,
            notes={},
            grid=SimpleNamespace(get_node_ids=lambda: self.clients),
            federation=Federation(nodes, {}, Facts("nodes", 0, ()), {}),
            progress=SimpleNamespace(say=lambda *_: None),
            name="run",
        )
        super().__init__(run)

    def sum_of(self, number: int, vectors: Mapping[int, np.ndarray]) -> Summed:
        """The sum of a round."""
        self.vectors = vectors
        question = Question(TRAIN, number, self.clients)
        return self._sum(question, {}, {self.clients: (MODULUS, LENGTH)})

    def record(self, *_: object, **__: object) -> None:
        """Nothing."""

    def _basis(self, *_: object) -> Basis:
        return BASIS

    def send(
        self,
        header: Header,
        clients: Collection[int],
        check: Check,
        parts: Mapping[int, Parts],
        template: Template | None,
    ) -> Answer:
        """Ask the members, each of whom has a fate."""
        replies: dict[int, Reply] = {}
        reasons: dict[int, str] = {}
        away = set()
        without_keys = set()
        for client in clients:
            reply = self._reply(header, client, parts.get(client, {}))
            if reply is None:
                away.add(client)
                reasons[client] = "no reply"
            elif WITHOUT_KEYS in reply.parts:
                without_keys.add(client)
                reasons[client] = "no keys"
            else:
                try:
                    check(reply)
                except MessageError as error:
                    reasons[client] = str(error)
                else:
                    replies[client] = reply
        return Answer(
            header,
            replies,
            reasons,
            dict.fromkeys(clients, 0.0),
            {},
            {},
            without_keys=frozenset(without_keys),
            away=frozenset(away),
        )

    def _reply(self, header: Header, client: int, parts: Parts) -> Reply | None:
        self.last_messages[client] -= 1
        if self.last_messages[client] < 0:
            return None
        fate = self.rng.choice(FATES, p=(0.9, 0.04, 0.04, 0.02))
        if fate == "misses it":
            return None
        if fate == "starts again":
            self.states.pop(client, None)
        arrays, of_reply = self._work(header, client, parts)
        if fate == "its reply is lost":
            return None
        return Reply(header, client, arrays=arrays, parts=of_reply)

    def _work(self, header: Header, client: int, parts: Parts) -> tuple[dict[str, Any], Parts]:
        """The work of `curvfed.client_app.secure`, except that a vector is given."""
        member: Any = SimpleNamespace(
            config=self.config,
            data_state="",
            hides_number=False,
            ledger=None,
            node=SimpleNamespace(is_real=False, rules=None),
            partition=client,
        )
        state = self.states.setdefault(client, RecordDict())
        request = Request(header, parts=parts)
        if header.phase == KEYS:
            return {}, secure_keys.keys(member, request, state)["parts"]
        if header.phase == AGREE:
            return {}, secure_keys.agree(member, request, state)["parts"]
        opened = secure.open_sum(member, request, state)
        if opened is None:
            return {}, {WITHOUT_KEYS: True}
        what = opened.session
        masked = opened.member.mask(self.vectors[client], what, BASIS)
        return {MASKED: masked}, masked_input(masked, what, client, BASIS).as_parts()


def check_sums(seeds: range) -> None:
    """Every sum is that of all members, and some are there and some are not."""
    outcomes = {"sum": 0, "none": 0}
    for seed in seeds:
        server = Vanishing(seed)
        for number in (1, 2, 3):
            what = session(len(server.clients), round=number, length=LENGTH)
            values = vectors(what, 10 * seed + number)
            summed = server.sum_of(number, values)
            if summed.sums:
                (total,) = summed.sums.values()
                assert total.tolist() == plain_sum(what, values)
                assert not summed.failed
                outcomes["sum"] += 1
            else:
                assert list(summed.failed) == [server.clients]
                outcomes["none"] += 1
    print(outcomes)
    assert min(outcomes.values()) > len(seeds) // 4, outcomes


def test_sums_with_members_that_vanish_at_random():
    check_sums(range(20))


@pytest.mark.long
def test_a_thousand_groups_with_members_that_vanish_at_random():
    check_sums(range(1000, 2000))

"""Cohorts: who is drawn, who is who; replies that are missing, late, wrong or doubled."""

import threading
from collections.abc import Callable, Iterable

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from hypothesis import given
from hypothesis import strategies as st
from paused_clock import PausedClock

from curvfed.client_app import app as client_app
from curvfed.deployments.inprocess import InProcessGrid
from curvfed.strategies.wire.codec import encode_reply
from curvfed.strategies.wire.exchange import (
    MIN_WAIT,
    FederationError,
    exchange,
    is_due,
    nodes_by_partition,
    sample,
)
from curvfed.strategies.wire.messages import Header, Reply, Request

partitions = st.lists(st.integers(0, 10_000), min_size=1, max_size=60, unique=True)
fractions = st.floats(0.001, 1.0)
HEADER = Header("run", "train", 2)
LONG = 600.0
"""Seconds in which a thread surely has its turn, on a busy machine too."""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A pull of a thread is waited for: that it is not is what two tests are about."""
    monkeypatch.setattr("curvfed.strategies.wire.exchange.PATIENCE", LONG)


@given(partitions, fractions, st.integers(0, 2**31 - 1), st.integers(0, 10**6), st.randoms())
def test_a_sample_is_sorted_seeded_and_independent_of_order(
    clients, fraction, seed, round_number, chance
):
    drawn = sample(clients, fraction, seed, round_number)
    assert drawn == sorted(set(drawn))
    assert set(drawn) <= set(clients)
    assert len(drawn) == max(1, round(fraction * len(clients)))
    assert all(type(client) is int for client in drawn)
    shuffled = list(clients)
    chance.shuffle(shuffled)
    assert sample(shuffled, fraction, seed, round_number) == drawn


def test_samples_are_fair():
    """Each of 10 clients is drawn in 3 of 10 rounds, within 5 standard deviations."""
    drawn = [client for number in range(2000) for client in sample(range(10), 0.3, 7, number)]
    slack = 5 * (2000 * 0.3 * 0.7) ** 0.5
    assert all(abs(drawn.count(client) - 600) < slack for client in range(10))


class Scripted(InProcessGrid):
    """Nodes 11, 12, … of which each look for replies yields the next entry of a script.

    An entry is a list of functions from the messages by node to a reply.
    """

    def __init__(self, script: "list[list[Callable[[dict[int, Message]], Message]]]") -> None:
        super().__init__(None, {}, [])  # type: ignore[arg-type]
        self.script = list(script)
        self.asked: dict[int, Message] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        self.asked |= {message.metadata.dst_node_id: message for message in messages}
        return super().push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [reply(self.asked) for reply in self.script.pop(0)] if self.script else []


def good(
    node: int, examples: int = 1, header: Header = HEADER
) -> Callable[[dict[int, Message]], Message]:
    content = encode_reply(Reply(header, node - 11, num_examples=examples))
    return lambda asked: Message(content, reply_to=asked[node])


def error(
    node: int, code: int = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
) -> Callable[[dict[int, Message]], Message]:
    return lambda asked: Message(
        Error(code=code, reason="secret text of an exception"), reply_to=asked[node]
    )


def ask(
    grid: Scripted,
    nodes: Iterable[int],
    timeout: float = LONG,
    header: Header = HEADER,
    on_reply=None,
):
    requests = {node: Request(header, stamp=node) for node in nodes}
    replies, failures, seconds = exchange(grid, requests, timeout, on_reply)
    return replies, {node: str(error) for node, error in failures.items()}, seconds


def test_replies_come_in_any_order():
    notes: list[tuple[int, int]] = []
    grid = Scripted([[good(13, 3)], [], [good(11, 1), good(12, 2)]])
    replies, failures, seconds = ask(
        grid, (11, 12, 13), on_reply=lambda *progress: notes.append(progress)
    )
    assert {node: reply.num_examples for node, reply in replies.items()} == {11: 1, 12: 2, 13: 3}
    assert failures == {}
    assert seconds.keys() == {11, 12, 13}
    assert seconds[13] < seconds[11]
    assert notes == [(1, 3), (3, 3)]


def test_a_node_that_has_gone_has_not_answered():
    counts: list[tuple[int, int]] = []
    gone = error(12, ErrorCode.NODE_UNAVAILABLE)
    grid = Scripted([[good(11)], [gone], [error(13)]])
    ask(grid, (11, 12, 13), on_reply=lambda *progress: counts.append(progress))
    assert counts == [(1, 3), (1, 3), (2, 3)]


@pytest.mark.usefixtures("clock")
def test_every_node_gets_its_own_parts_and_its_own_come_back():
    header = Header("run", "keys", 0)
    content = encode_reply(Reply(header, 0, parts={"key": b"public"}))
    grid = Scripted([[lambda asked: Message(content, reply_to=asked[11])]])
    requests = {node: Request(header, parts={"clients": [node, 7]}) for node in (11, 12)}
    replies, _, _ = exchange(grid, requests, LONG)
    assert {node: message.content["parts"]["clients"] for node, message in grid.asked.items()} == {
        11: [11, 7],
        12: [12, 7],
    }
    assert {message.metadata.message_type for message in grid.asked.values()} == {"query.keys"}
    assert {node: reply.parts for node, reply in replies.items()} == {11: {"key": b"public"}}


def test_who_is_silent_has_failed_after_the_timeout(clock):
    replies, failures, seconds = ask(Scripted([[good(11)]]), (11, 12, 13), timeout=100)
    assert 100 <= clock.now < 101
    assert list(replies) == [11]
    assert failures == dict.fromkeys((12, 13), "no reply within 100 s")
    assert list(seconds) == [11]


def test_the_timeout_holds_while_replies_trickle_in(clock):
    """A phase ends at its timeout, not a timeout after the last reply."""

    class Slow(Scripted):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            clock.sleep(50)
            return super().pull_messages(message_ids)

    replies, failures, _ = ask(
        Slow([[good(node)] for node in range(11, 31)]), range(11, 31), timeout=300
    )
    # the last comes after the timeout, in a pull from before
    assert (len(replies), len(failures)) == (7, 13)


class Network(Scripted):
    """Nodes that work elsewhere, of which one may send half a reply: the pull that sees it waits
    for the other half.

    As with Flower, a pull has the replies that it sees to itself: to later ones they are lost.
    """

    works_in_pull = False

    def __init__(self, script) -> None:
        super().__init__(script)
        self.rest = threading.Event()
        self.taken: set[str] = set()
        self.told_lost = 0

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        node_of = {message.metadata.message_id: node for node, message in self.asked.items()}
        lost = [
            error(node_of[one], ErrorCode.MESSAGE_UNAVAILABLE)(self.asked)
            for one in message_ids
            if one in self.taken
        ]
        self.told_lost += len(lost)
        result = [*super().pull_messages(message_ids)]
        self.taken |= {message.metadata.reply_to_message_id for message in result}
        if any(
            not one.has_error() and one.content["header"]["num_examples"] == HALF for one in result
        ):
            assert self.rest.wait(LONG)
        return result + lost


HALF = 777


def test_half_a_reply_holds_nobody_up(monkeypatch):
    """The timeout comes when nothing is left to come but the other half."""
    monkeypatch.setattr("curvfed.strategies.wire.exchange.PATIENCE", 0.05)
    time = PausedClock()
    monkeypatch.setattr("curvfed.strategies.wire.exchange.time", time)
    grid = Network([[good(11, HALF)], [good(12, 2)], [good(13, 3)]])

    def tell(number: int, _of: int) -> None:
        time.sleep(LONG if number == 2 else 0.0)

    replies, failures, _ = ask(grid, (11, 12, 13), timeout=LONG, on_reply=tell)
    assert not grid.rest.is_set()
    grid.rest.set()
    assert {node: reply.num_examples for node, reply in replies.items()} == {12: 2, 13: 3}
    assert failures == {11: "no reply within 600 s"}
    assert grid.told_lost  # and then it is left to the pull that has it


def test_the_other_half_is_still_taken(monkeypatch):
    monkeypatch.setattr("curvfed.strategies.wire.exchange.PATIENCE", 0.05)
    grid = Network([[good(11, HALF), good(12, 2)], [good(13, 3)]])
    threading.Timer(0.3, grid.rest.set).start()
    replies, failures, _ = ask(grid, (11, 12, 13))
    assert {node: reply.num_examples for node, reply in replies.items()} == {11: HALF, 12: 2, 13: 3}
    assert failures == {}


def test_a_half_that_never_comes_is_lost(monkeypatch):
    monkeypatch.setattr("curvfed.strategies.wire.exchange.PATIENCE", 0.05)

    class Lossy(Network):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            result = super().pull_messages(message_ids)
            is_half = [
                not one.has_error() and one.content["header"]["num_examples"] == HALF
                for one in result
            ]
            lost = error(11, ErrorCode.MESSAGE_UNAVAILABLE)(self.asked)
            return [lost if half else one for half, one in zip(is_half, result, strict=True)]

    grid = Lossy([[good(11, HALF)], [good(12, 2)]])
    threading.Timer(0.3, grid.rest.set).start()
    replies, failures, _ = ask(grid, (11, 12))
    assert list(replies) == [12]
    assert failures == {11: "its reply was lost in transit"}


class HttpGrid(Network):
    """Node 12 is one message behind: its reply comes with the next message that it gets."""

    def __init__(self) -> None:
        super().__init__([])
        self.woken: list[int] = []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        if any(message.metadata.message_type == "query.wake_up" for message in messages):
            assert all(not list(message.content) for message in messages)
            self.woken += [message.metadata.dst_node_id for message in messages]
            self.script.append([good(12, 2)])
            return InProcessGrid.push_messages(self, messages)
        self.script.append([good(11, 1)])
        return super().push_messages(messages)


@pytest.mark.usefixtures("clock")
def test_a_node_that_is_one_message_behind_is_sent_others():
    grid = HttpGrid()
    replies, failures, _ = ask(grid, (11, 12))
    assert {node: reply.num_examples for node, reply in replies.items()} == {11: 1, 12: 2}
    assert failures == {}
    assert grid.woken == [12, 12]


@pytest.mark.usefixtures("clock")
def test_nobody_is_nudged_before_its_time():
    grid = HttpGrid()
    _, failures, _ = ask(grid, (11, 12), timeout=MIN_WAIT - 1)
    assert (list(failures), grid.woken) == ([12], [])
    assert [is_due(21, []), is_due(21, [8.0]), is_due(25, [8.0]), is_due(19, [])] == [
        True,
        False,
        True,
        False,
    ]


def test_clients_of_one_node_answer_nudges_at_one_moment(monkeypatch):
    clock, moments = PausedClock(), []
    monkeypatch.setattr(client_app, "time", clock)
    for begin in (1.5, 2.25):
        clock.now = begin
        message = InProcessGrid(client_app.app, {}, [{"partition-id": 0}])
        asked = Message(RecordDict(), 2, "query.wake_up")
        message.push_messages([asked])
        (answer,) = message.pull_messages([asked.metadata.message_id])
        assert not list(answer.content)
        moments.append(clock.now)
    assert moments == [client_app.SLOT, client_app.SLOT]


def test_a_grid_that_fails_is_heard_of():
    class Broken(Network):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            raise ConnectionError("the SuperLink is gone")

    with pytest.raises(ConnectionError, match="is gone"):
        ask(Broken([]), (11,))


@pytest.mark.usefixtures("clock")
def test_a_late_reply_to_an_earlier_phase_is_passed_over():
    grid = Scripted([[good(11)]])
    _, failures, _ = ask(grid, (11, 12))
    assert list(failures) == [12]
    late = good(12, 99)(grid.asked)
    grid.script = [[lambda asked: late], [good(12, 2), good(11, 1)]]
    replies, failures, _ = ask(grid, (11, 12))
    assert {node: reply.num_examples for node, reply in replies.items()} == {11: 1, 12: 2}
    assert failures == {}


def test_a_doubled_reply_counts_once():
    replies, failures, _ = ask(
        Scripted([[good(11, 1), good(11, 50)], [good(11, 50), good(12)]]), (11, 12)
    )
    assert {node: reply.num_examples for node, reply in replies.items()} == {11: 1, 12: 1}
    assert failures == {}


def no_reply(asked: dict[int, Message]) -> Message:
    return Message(RecordDict(), reply_to=asked[11])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (error(11), "Flower reports error 2"),
        (error(11, ErrorCode.NODE_UNAVAILABLE), "the node is no longer"),
        (error(11, ErrorCode.MESSAGE_UNAVAILABLE), "its reply was lost"),
        (good(11, header=Header("run", "train", 1)), "the reply has round 1, expected 2"),
        (no_reply, 'the record "header" is missing'),
    ],
)
def test_what_is_no_reply_fails_its_node_and_its_text_goes_nowhere(answer, reason):
    replies, failures, seconds = ask(Scripted([[answer, good(12)]]), (11, 12))
    assert list(replies) == [12]
    assert failures[11].startswith(reason)
    assert "secret" not in failures[11]
    assert seconds.keys() == {11, 12}


def test_a_doubled_partition_is_refused():
    with pytest.raises(FederationError, match="nodes 70 and 10 both have partition-id 1"):
        nodes_by_partition({70: Reply(HEADER, 1), 30: Reply(HEADER, 2), 10: Reply(HEADER, 1)})


def test_an_error_that_the_client_tells_fails_it_by_name_while_nobody_is_known():
    def refuse(node: int, header: Header, partition: int):
        content = encode_reply(Reply(header, partition, error="no file x.pt"))
        return lambda asked: Message(content, reply_to=asked[node])

    first = Header("run", "describe", 0)
    _, failures, _ = ask(
        Scripted([[refuse(11, first, 4), refuse(12, first, -1)]]), (11, 12), header=first
    )
    assert failures == {11: "partition-id 4: no file x.pt", 12: "no file x.pt"}
    _, failures, _ = ask(Scripted([[refuse(11, HEADER, 4)]]), (11,))
    assert failures == {11: "no file x.pt"}

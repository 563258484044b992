"""Lines that are slow, lose frames, or change what they carry: the run is the one of good lines, to the last bit."""

import pytest
from app_runs import Run
from many_hosts import LONG, NODES, PAIRS, Hosts, assert_equal, await_, ended


def test_a_reply_that_is_changed_on_its_way_is_sent_again(hosts: Hosts, reference: Run) -> None:
    """TLS notices, the connection ends, Flower makes another one and repeats what it had begun to send."""
    process = hosts.submit(*PAIRS, "run-name=changed")
    hosts.await_round("changed", 1)
    hosts.tampering.touch()
    await_(lambda: not hosts.tampering.exists(), LONG, "a reply to change")
    code, output = ended(process)
    assert code == 0, output
    assert_equal(hosts.found("changed"), reference)
    assert "Connection attempt failed, retrying" in hosts.daemon(NODES[0]).log.read_text()


def test_delay_and_loss(hosts: Hosts, reference: Run) -> None:
    if hosts.network is None:
        pytest.skip(hosts.reason)
    with hosts.network.impaired(NODES, delay=0.05, loss=0.02) as impairment:
        code, output = ended(hosts.submit(*PAIRS, "run-name=lossy"))
    assert code == 0, output
    assert impairment.lost > 0, impairment.by
    assert_equal(hosts.found("lossy"), reference)

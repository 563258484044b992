"""Lines that are slow, lose frames, or change what they carry: the run is the one of good lines, to the last bit."""

from pathlib import Path

import pytest
from many_hosts import LONG, NODES, Hosts, assert_equal, await_, ended, pairs, reference

ROUNDS = 2


def test_a_reply_that_is_changed_on_its_way_is_sent_again(hosts: Hosts, tmp_path: Path) -> None:
    """TLS notices, the connection ends, Flower makes another one and repeats what it had begun to send."""
    process = hosts.submit(*pairs("changed", ROUNDS))
    hosts.await_round("changed", 1)
    hosts.tampering.touch()
    await_(lambda: not hosts.tampering.exists(), LONG, "a reply to change")
    code, output = ended(process)
    assert code == 0, output
    assert_equal(hosts.found("changed"), reference(tmp_path, ROUNDS))
    assert "Connection attempt failed, retrying" in hosts.daemon(NODES[0]).log.read_text()


def test_delay_and_loss(hosts: Hosts, tmp_path: Path) -> None:
    if hosts.network is None:
        pytest.skip(hosts.reason)
    with hosts.network.impaired(NODES, delay=0.05, loss=0.02) as impairment:
        code, output = ended(hosts.submit(*pairs("lossy", ROUNDS)))
    assert code == 0, output
    assert impairment.lost > 0, impairment.by
    assert_equal(hosts.found("lossy"), reference(tmp_path, ROUNDS))

"""Lines that are slow, lose frames or change them: the run is that of good lines."""

import pytest
from many_hosts import LONG, NODES, assert_equal, await_, ended, pairs, reference

ROUNDS = 3
TIMEOUT = 60.0
LOST = "its reply was lost in transit"


def test_a_reply_that_is_changed_on_its_way_is_sent_again_or_dropped(hosts, tmp_path):
    """TLS notices, the connection ends, and Flower makes another one. Whether it sends the reply
    again depends on which of its parts were on their way: if not, the round goes on without it, at
    its timeout at the latest."""
    process = hosts.submit(*pairs("changed", ROUNDS, timeout=TIMEOUT))
    hosts.await_round("changed", 1)
    hosts.tampering.touch()
    await_(lambda: not hosts.tampering.exists(), LONG, "a reply to change")
    code, output = ended(process)
    assert code == 0, output
    assert "Connection attempt failed, retrying" in hosts.program(NODES[0]).text()
    rounds = hosts.trained("changed")
    lost = [row for row in rounds if row["dropped"] != "0"]
    if not lost:
        assert_equal(hosts.result("changed"), reference(tmp_path, ROUNDS))
        return
    (row,) = lost
    assert row["round"] == "2"
    assert row["reasons"] in [
        f"partition 0 ({NODES[0]}): {reason}" for reason in (f"no reply within {TIMEOUT:g} s", LOST)
    ]
    assert float(row["seconds"]) < TIMEOUT + hosts.patience(5)
    assert [row["replies"] for row in rounds] == ["3", "2", "3"]


def test_delay_and_loss(hosts, tmp_path):
    if hosts.network is None:
        pytest.skip(hosts.reason)
    with hosts.network.impaired(NODES, delay=0.05, loss=0.02) as impairment:
        code, output = ended(hosts.submit(*pairs("lossy", ROUNDS)))
    assert code == 0, output
    assert impairment.lost > 0, impairment.by
    assert_equal(hosts.result("lossy"), reference(tmp_path, ROUNDS))

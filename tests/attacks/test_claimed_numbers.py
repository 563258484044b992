"""A member that states another number of examples to its peers in each sum: a peer with most of the
examples has a smaller weight in one of them, and the difference of both is its part."""

from collections.abc import Callable

import pytest
from app_runs import real_nodes, run
from errors import refuses
from test_ledger import SUMMED, Observer, graphs_of

from curvfed.client_app import secure_keys
from curvfed.client_app.client import Client
from curvfed.client_app.node import ledger_file
from curvfed.client_app.node.ledger import Ledger
from curvfed.server_app.run import RoundError
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum.member import Member

pytestmark = pytest.mark.usefixtures("own_home")

COLLUDER = 2


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    return Observer(monkeypatch)


@pytest.fixture
def claim(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the number that the colluder states to its peers."""
    claims: list[int] = []
    honest = secure_keys._with_texts

    def with_texts(client: Client, member: Member, name: str) -> Member:
        with pytest.MonkeyPatch.context() as patch:
            if client.partition == COLLUDER:
                patch.setattr(secure_keys, "_rounded", lambda _: claims[-1])
            return honest(client, member, name)

    monkeypatch.setattr(secure_keys, "_with_texts", with_texts)
    return claims.append


def test_no_two_sums_have_another_weight_of_one_node(tmp_path, observer, claim, monkeypatch):
    """A server that followed the protocol had the update of node 0, to 1e-9."""
    nodes = real_nodes(tmp_path / "nodes", graphs_of(59, 10, 10))
    claim(32)
    run(tmp_path, "many", nodes=nodes, **SUMMED)  # with a weight of 32 + 8
    claim(16)
    for name, settings in {"again": {}, "seed": {"seed": 1}}.items():
        with pytest.raises(RoundError, match="fewer examples than in an earlier sum"):
            run(tmp_path, name, nodes=nodes, **SUMMED | settings)
    # More hide the node better; its weight stays.
    claim(64)
    run(tmp_path, "more", nodes=nodes, **SUMMED)
    assert all(not array.any() for array in observer.difference().values())
    monkeypatch.setattr(Ledger, "keep_weight", lambda ledger, data, weight, limit: weight)
    claim(16)
    run(tmp_path, "unguarded", nodes=nodes, **SUMMED)
    of_difference = {name: array * 40 / 16 for name, array in observer.difference().items()}
    assert observer.error(of_difference, 0) < 1e-6  # the attack is real


def test_a_ledger_keeps_the_weight_until_the_group_changes(tmp_path):
    path = tmp_path / "ledger.jsonl"
    assert Ledger(path).keep_weight("a", 40, 1) == 40
    ledger_file._checked.clear()  # each message may reach a new process
    assert Ledger(path).keep_weight("a", 50, 1) == 40
    with refuses("other-weight", "configurations = 1", error=SecureSumError) as refused:
        Ledger(path).keep_weight("a", 24, 1)
    assert not {"24", "40"}.intersection(str(refused.value).split())
    assert Ledger(path).keep_weight("b", 24, 1) == 24
    assert Ledger(path).keep_weight("a", 24, 2) == 24
    assert Ledger(path).keep_weight("a", 39, 2) == 24
    Ledger(path).regroup(1, former=[[0, 1]], group=[0, 2], by="operator")
    assert Ledger(path).keep_weight("a", 30, 1) == 30

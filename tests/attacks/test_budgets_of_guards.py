"""A guard of another package that calls itself private, but does not pay: a node with a budget of
differential privacy takes no part, and bounds on small classes stay."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from app_runs import run
from errors import refuses
from guards import hiding
from policies import costs, sharing_nodes, with_policy

from curvfed.client_app import rounds
from curvfed.client_app.contribution import Contribution
from curvfed.client_app.guard import ClientGuard, client_half
from curvfed.client_app.node.ledger_memory import PRIVACY
from curvfed.client_app.node.policy import Policy
from curvfed.server_app.run import RoundError
from curvfed.strategies.base import guard as guard_module
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks import plugins

pytestmark = pytest.mark.usefixtures("own_home")

BUDGET = "[privacy]\nmax-epsilon = 3\n"
PLACE = "tests:HalfOfGuard"


class Silent(ClientGuard):
    """Overrides what pays, and pays nothing."""

    def check(self) -> None:
        """Nothing."""

    def pay(self, session: object) -> None:
        """Nothing."""

    def hide(self, *_: object) -> Any:
        """Noise of zero."""
        return lambda residues, encoding, session: residues


class Paying(Silent):
    """Writes a line for each reply of a round."""

    def note(self, phase: str, reply: str) -> None:
        """Write a line."""
        assert self.ledger is not None
        cost = {"unit": "record", "noise": 1.0, "rate": 1.0, "times": 1}
        with self.ledger.locked() as file:
            self.ledger.write(file, PRIVACY, run=self.run, reply=reply, phase=phase, **cost)

    def train(self, client: Any, request: Any) -> Contribution:
        """The usual work without scores."""
        received = rounds.prepare(client, request)
        client.fit(request.header.round)
        client.commit(request.header.round, base=request.stamp)
        arrays = client.learner.share()
        figures = {"steps": 1.0}
        made = Contribution(arrays, client.task.num_examples, figures, received=received)
        self.note(request.header.phase, made.digest)
        return made

    def pay(self, session: Any) -> None:
        """Write a line."""
        self.note(session.phase, session.digest.hex())


class PaysOnce(Paying):
    """Writes a line for the first reply alone."""

    def note(self, phase: str, reply: str) -> None:
        """Write a line if the ledger has none."""
        if self.ledger and not self.ledger.memory.costs:
            super().note(phase, reply)


class Declares(Guard):
    """Says that it hides records and keeps to the budget."""

    unit = "record"
    keeps_budget: ClassVar[bool] = True
    client_half: ClassVar[str] = PLACE


class Named(Declares):
    """Names its key, and itself in the log."""

    words: ClassVar[str] = "noise of c"
    remedy: ClassVar[str] = "c.on = true"
    client_half: ClassVar[str] = Guard.client_half
    promise = "little"  # type: ignore[assignment]


@pytest.fixture
def guarded(monkeypatch):
    """Runs have this guard, with a half of a class."""

    def install(guard: type[Guard], half: type[ClientGuard] = ClientGuard) -> None:
        monkeypatch.setattr(RunConfig, "guard", property(lambda config: guard(config)))
        monkeypatch.setitem(plugins._OBJECTS, PLACE, half)

    return install


def nodes_in(folder, policy=BUDGET):
    return with_policy(folder, sharing_nodes(folder), policy)


def test_a_guard_that_does_not_declare_it_is_refused(guarded):
    policy = Policy.model_validate({"privacy": {"max-epsilon": 3}})
    guarded(lambda config: hiding())
    with refuses("policy", "max-epsilon = 3", error=ConfigError):
        policy.check_run(parse({}), owns_data=False)
    guarded(Declares)
    policy.check_run(parse({}), owns_data=False)


def test_the_guards_that_keep_to_a_budget_name_the_remedy(monkeypatch):
    """The core knows no key of theirs."""
    policy = Policy.model_validate({"privacy": {"max-epsilon": 3}})
    config = parse({})
    monkeypatch.setattr(guard_module, "guards", lambda: {"a": Declares, "b": Guard, "c": Named})
    with refuses("policy", "allowed is keys of a, or c.on = true", error=ConfigError) as caught:
        policy.check_run(config, owns_data=False)
    assert "dp." not in str(caught.value)
    monkeypatch.setattr(guard_module, "guards", dict)
    with refuses("policy", "no guard here does", error=ConfigError):
        policy.check_run(config, owns_data=False)


def test_a_promise_stands_under_the_words_of_its_guard(guarded, tmp_path, caplog):
    caplog.set_level("INFO", logger="curvfed")
    guarded(Named)
    run(tmp_path, method="fedavg", num_rounds=1)
    assert "noise of c: little" in caplog.text
    assert "differential privacy" not in caplog.text


@pytest.mark.parametrize("half", [ClientGuard, type("Half", (ClientGuard,), {"check": print})])
def test_a_half_without_a_cost_is_refused(half, guarded, tmp_path):
    guarded(Declares, half)
    assert client_half(Declares(None), False) is half
    with refuses("unpaid-guard", PLACE, "pay", error=ConfigError):
        client_half(Declares(None), True)
    with pytest.raises(FederationError, match=f"{PLACE} has no"):
        run(tmp_path, method="fedavg", nodes=nodes_in(tmp_path))


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize(("half", "lines"), [(Silent, 0), (PaysOnce, 1), (Paying, 2)])
def test_no_reply_leaves_without_its_line(half, lines, is_masked, guarded, tmp_path):
    guarded(Declares, half)
    settings = {"method": "fedavg", "nodes": nodes_in(tmp_path), "secure_sum": is_masked}
    if half is Paying:
        run(tmp_path, **settings)
        lines *= 1 + is_masked  # its masked sum has noise, too
    else:
        with pytest.raises(RoundError, match="has written no cost of this reply"):
            run(tmp_path, **settings)
    assert len(costs(tmp_path)) == lines
    without = nodes_in(tmp_path, "")
    assert run(tmp_path, "free", **settings | {"nodes": without}).rounds


def test_the_bounds_on_small_classes_stay(guarded, monkeypatch):
    keys = {"method": "spherefed", "dataset": "digits", "num-rounds": 0, "secure-sum": True}
    config = resolve_defaults(parse(keys), "images")
    guarded(lambda config: hiding())
    assert sums_by_name(config)

    def stop(*_: object) -> None:
        raise ConfigError("small", key="small")

    monkeypatch.setattr(rounds, "check_class_sizes", stop)
    client: Any = SimpleNamespace(run_guard=config.guard, config=config, data=None, node=None)
    with refuses("small", error=ConfigError):
        rounds.calibrate(client, SimpleNamespace())  # type: ignore[arg-type]


def test_a_count_of_holders_is_not_paid_for(guarded, tmp_path):
    guarded(Declares, Paying)
    keys = {"method": "spherefed", "dataset": "digits", "num_rounds": 0, "secure_sum": True}
    with pytest.raises(RoundError, match="holders: the run's guard has written no cost"):
        run(tmp_path, nodes=nodes_in(tmp_path), **keys)

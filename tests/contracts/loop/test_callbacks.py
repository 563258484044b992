"""Callbacks of other packages: they see every round, and can end a run."""

import json
import types

import pytest
from app_runs import run
from errors import refuses

from curvfed.server_app.callbacks import Callback, by_step
from curvfed.server_app.directory import checkpoint
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins


class StopAtTwo(Callback):
    """Ends the run after its second round, adds a column, and keeps what it was called for."""

    def __init__(self, run):
        super().__init__(run)
        self.run.state.calls = []

    def begin(self):
        self.run.state.calls.append("begin")

    def figures(self, number, answer):
        self.run.state.calls.append("figures")
        return {"mean_weight": sum(each.weight for each in answer.contributions.values())}

    def after_round(self, completed):
        self.run.state.calls.append("after_round")
        if completed.number == 1:
            self.run.stop_after(2)

    def stored(self, completed):
        self.run.state.calls.append("stored")

    def end(self):
        (self.run.directory.path / "calls").write_text(" ".join(self.run.state.calls))


@pytest.fixture
def installed(monkeypatch):
    """Lets `callbacks=NAME` find an object, as an entry point would."""

    def install(name: str, value: object) -> None:
        place = plugins.register_object(value, f"test_callbacks:{name}")
        points = {name: [types.SimpleNamespace(value=place)]}
        monkeypatch.setattr(
            plugins, "registered", lambda kind: points if kind == "callbacks" else {}
        )

    return install


@pytest.mark.parametrize("is_masked", [False, True], ids=["open", "masked"])
def test_a_callback_is_called_in_every_round_and_can_end_the_run(tmp_path, installed, is_masked):
    installed("stopper", StopAtTwo)
    made = run(tmp_path, num_rounds=5, callbacks="stopper", secure_sum=is_masked, method="fedavg")
    assert made.summary["rounds"] == 2
    in_a_round = ["figures", "after_round", "stored"]
    calls = (made.path / "calls").read_text().split()
    assert calls == ["begin", *in_a_round, *in_a_round]
    trained = [row for row in made.rounds if row["phase"] == "train"]
    sizes = [client["statistics"]["num_train"] for client in made.described["clients"]]
    assert [float(row["mean_weight"]) for row in trained] == [sum(sizes)] * 2


class StopAtTarget(Callback):
    """Asks for the end in every round that has the score, as the page on callbacks does."""

    def after_round(self, completed):
        if (completed.row.get("score") or 0) >= 0:
            self.run.stop_after(completed.number + 1)


@pytest.mark.parametrize(("rounds", "done"), [(5, 2), (1, 1), (0, 0)])
def test_a_callback_that_asks_in_every_round_ends_the_run_once(tmp_path, installed, rounds, done):
    installed("target", StopAtTarget)
    made = run(tmp_path, num_rounds=rounds, callbacks="target", method="fedavg")
    assert made.summary["rounds"] == done


def test_a_name_that_is_not_installed_is_refused(tmp_path):
    with refuses("no-such-callback", "callbacks", "stoper", error=ConfigError):
        run(tmp_path, callbacks="stoper")


@pytest.mark.parametrize("keys", [{"callbacks": "stopper"}, {"early_stopping": 2}])
def test_a_method_without_rounds_refuses_them(tmp_path, keys):
    (key,) = (name.replace("_", "-") for name in keys)
    with refuses(f"{key}-with-method", key, "rounds", error=ConfigError):
        run(tmp_path, method="hull", dataset="uniform", points__num=300, **keys)


def test_what_is_no_callback_is_refused(tmp_path, installed):
    installed("function", print)
    with refuses("not-a-callback", "function", "Callback", error=ConfigError):
        run(tmp_path, callbacks="function")


class ReadsTheCheckpoint(Callback):
    """Notes the rounds of the checkpoints that it sees."""

    def __init__(self, run):
        super().__init__(run)
        self._rounds = []

    def stored(self, completed):
        state, _, _ = checkpoint.load(self.run.directory.checkpoints, self.run.federation)
        self._rounds.append(state.round)

    def end(self):
        (self.run.directory.path / "rounds").write_text(json.dumps(self._rounds))


def test_the_checkpoint_of_a_round_is_there_when_it_is_stored(tmp_path, installed):
    installed("reader", ReadsTheCheckpoint)
    made = run(tmp_path, num_rounds=3, callbacks="reader", method="fedavg")
    assert json.loads((made.path / "rounds").read_text()) == [1, 2, 3]


class FirstClientAlone(Callback):
    """Leaves all clients but the first out of the second round."""

    def before_round(self, number):
        self.round_before = self.run.state.round

    def contributions(self, number, replies):
        return {0: replies[0]} if number == 2 else replies

    def after_round(self, completed):
        sent = completed.answer.contributions[0].arrays
        model = self.run.model.state()
        is_alone = all((array == sent[name]).all() for name, array in model.items())
        with (self.run.directory.path / "alone").open("a") as file:
            file.write(f"{self.round_before} {is_alone}\n")


def test_a_callback_can_leave_contributions_out_of_a_round(tmp_path, installed):
    installed("alone", FirstClientAlone)
    made = run(tmp_path, num_rounds=3, callbacks="alone", method="fedavg")
    assert (made.path / "alone").read_text().splitlines() == ["0 False", "1 True", "2 False"]


class OnlyStored(Callback):
    """Takes part in one step."""

    def stored(self, completed):
        """Nothing."""


class AlsoAtTheEnd(OnlyStored):
    """Inherits a step, and takes part in another."""

    def end(self):
        """Nothing."""


def test_a_callback_is_called_for_the_steps_that_it_or_its_class_overrides():
    first, second, idle = OnlyStored(None), AlsoAtTheEnd(None), Callback(None)
    taking_part = by_step([first, second, idle])
    assert taking_part.pop("stored") == [first, second]
    assert taking_part.pop("end") == [second]
    assert list(taking_part) == ["begin", "before_round", "contributions", "figures", "after_round"]
    assert not any(taking_part.values())

"""Runs with `dp.unit = record`: what leaves a client, what it costs, and which runs are refused."""

import pytest
from app_runs import Recorder, run, value_names
from errors import refuses
from flwr.app import Message, RecordDict
from graph_fixtures import write_tu
from other_settings import FirstUnder, keys_under
from policies import costs, sharing_nodes, with_policy

from curvfed.client_app.client import Client
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.policy import Privacy
from curvfed.deployments.commands.command import main
from curvfed.extensions.privacy.accountant import Release, epsilon_of, whole_epsilon
from curvfed.extensions.privacy.budget import check_budget, pay
from curvfed.extensions.privacy.client import PrivateClient
from curvfed.extensions.privacy.keys import keys_of
from curvfed.extensions.privacy.plan import planned_releases
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods.fednova import FedNovaClient
from curvfed.strategies.wire.exchange import FederationError

pytest.importorskip("dp_accounting")
pytestmark = pytest.mark.usefixtures("own_home")

SETTINGS = {
    "method": "fedavg",
    "dataset": "digits",
    "images__train_subset": 60,
    "images__test_subset": 20,
    "partition": "iid",
    "local_epochs": 1,
    "batch_size": 0,
    "dp__unit": "record",
    "dp__epsilon": 4.0,
}
"""Whole batches, whose cost has a closed form."""

OPEN = {"dp__unit": "none", "dp__epsilon": "auto"}


def nodes_in(folder, policy="", count=2):
    nodes = sharing_nodes(folder, count)
    return with_policy(folder, nodes, policy) if policy else nodes


def test_only_parameters_leave(tmp_path):
    recorder = Recorder()
    made = run(tmp_path, nodes=nodes_in(tmp_path), clients=2, intercept=recorder, **SETTINGS)
    for reply in recorder.replies("train"):
        assert value_names(reply) - {"arrays.*"} == {
            "header.run",
            "header.phase",
            "header.round",
            "header.partition",
            "header.error",
            "header.num_examples",
            "metrics.steps",
        }
    assert all(not reply["statistics"] for reply in recorder.replies("describe"))
    assert made.summary["metrics"]["privacy_epsilon"] == 4
    assert made.summary["global_accuracy"] is not None


def test_the_ledger_has_the_cost_of_each_round(tmp_path):
    run(tmp_path, nodes=nodes_in(tmp_path), clients=2, **SETTINGS)
    lines = costs(tmp_path)
    assert [line["round"] for line in lines] == [1, 2]
    releases = [Release(line["noise"], line["rate"], line["times"]) for line in lines]
    assert epsilon_of(releases, 1e-5) == pytest.approx(4, rel=1e-3)


def test_whole_graphs_train_privately(tmp_path):
    write_tu(tmp_path / "data")
    graphs = {"dataset": "mutag", "data_dir": str(tmp_path / "data"), "model": "lorentz"}
    graphs["partition"] = "random"
    shared = {name: value for name, value in SETTINGS.items() if not name.startswith("images")}
    nodes = nodes_in(tmp_path, f'[runs.keys]\n"data-dir" = ["{tmp_path}/data"]\n')
    made = run(tmp_path, nodes=nodes, clients=2, **shared | graphs)
    assert made.summary["metrics"]["privacy_epsilon"] == 4
    lines = costs(tmp_path)
    releases = [Release(line["noise"], line["rate"], line["times"]) for line in lines]
    assert epsilon_of(releases, 1e-5) == pytest.approx(4, rel=1e-3)


class Twice:
    """Sends each request for training twice; `change` alters the arrays of the second."""

    def __init__(self, change=None):
        self.change = change
        self.answers = []

    def __call__(self, request, handle):
        if request.content.config_records["header"]["phase"] != "train":
            return handle(request)
        copy = RecordDict(dict(request.content))
        first = handle(request)
        again = Message(copy, 1, "train")
        again.__dict__.update({**request.__dict__, "_content": copy})
        if self.change:
            self.change(copy)
        second = handle(again)
        self.answers.append((first.content, second.content))
        return first


def test_a_repeated_request_has_the_same_reply_and_costs_nothing(tmp_path):
    twice = Twice()
    run(tmp_path, nodes=nodes_in(tmp_path), clients=2, intercept=twice, **SETTINGS)
    assert len(twice.answers) == 4
    for first, second in twice.answers:
        for name, array in first["arrays"].items():
            assert (array.numpy() == second["arrays"][name].numpy()).all()
    assert len(costs(tmp_path)) == 2


def test_other_parameters_for_the_same_round_cost_and_end_with_the_rounds(tmp_path):
    """A server that asks again draws no more than the rounds that the noise was planned for."""

    def change(content):
        record = content["arrays"]
        name = next(iter(record))
        record[name] = type(record[name])(record[name].numpy() + 1)

    twice = Twice(change)
    run(tmp_path, nodes=nodes_in(tmp_path), clients=2, intercept=twice, **SETTINGS)
    errors = [str(second["header"]["error"]) for _, second in twice.answers]
    assert all(errors)  # those of round 1 because the start is not that of the seed
    assert "another run-name" in errors[-1]
    assert len(costs(tmp_path)) == 2


def test_a_reply_with_less_noise_is_not_had_for_the_price_of_more(tmp_path, monkeypatch):
    """A node stored the reply that its budget then refused, and sent it for the price of a run of the
    same name with the noise of epsilon = 4: nearly the true update."""
    stored = []
    store = PrivateClient._store_reply

    def noted(client, number, basis, arrays):
        stored.append({name: array.copy() for name, array in arrays.items()})
        store(client, number, basis, arrays)

    monkeypatch.setattr(PrivateClient, "_store_reply", noted)
    dear = keys_under(tmp_path, SETTINGS | {"dp__epsilon": 100.0})
    twice = FirstUnder(monkeypatch, dear, "train")
    nodes = nodes_in(tmp_path, "[privacy]\nmax-epsilon = 5\n")
    run(tmp_path, nodes=nodes, clients=2, intercept=twice, **SETTINGS)
    assert ["max-epsilon" in error for error in twice.errors] == [True] * 4
    assert len(stored) == 8
    for first, second, reply in zip(stored[::2], stored[1::2], twice.replies, strict=True):
        for name, array in reply["arrays"].items():
            assert (array.numpy() == second[name]).all()
            assert (array.numpy() != first[name]).any()


def test_no_personal_state_is_kept_that_is_not_paid_for(tmp_path, monkeypatch):
    """What the budget refused was in the personal parameters, and so in later replies."""
    kept = []
    commit = Client.commit

    def noted(client, number, base):
        kept.append((number, len(client.ledger.lines("privacy"))))
        commit(client, number, base)

    monkeypatch.setattr(Client, "commit", noted)
    settings = SETTINGS | {"method": "fedper"}
    dear = keys_under(tmp_path, settings | {"dp__epsilon": 100.0})
    twice = FirstUnder(monkeypatch, dear, "train")
    nodes = nodes_in(tmp_path, "[privacy]\nmax-epsilon = 5\n")
    run(tmp_path, nodes=nodes, clients=2, intercept=twice, **settings)
    assert ["max-epsilon" in error for error in twice.errors] == [True] * 4
    assert kept == [(1, 1), (1, 1), (2, 2), (2, 2)]


@pytest.mark.parametrize("units", [("record", "client"), ("client", "record")])
def test_a_release_that_hides_clients_hides_records_half_as_well(units, tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    noises = {"record": 4.0, "client": 6.0}
    budget = whole_epsilon((4.0**-2 + 3.0**-2) ** -0.5, 1e-5)
    for unit in units:
        release = Release(noises[unit])
        plan = {"train": (release, 1)}
        check_budget(ledger, unit, plan, Privacy(max_epsilon=budget + 1e-6), unit)
        if ledger.memory.costs:
            with pytest.raises(ConfigError, match="max-epsilon"):
                check_budget(ledger, unit, plan, Privacy(max_epsilon=budget - 1e-3), unit)
        pay(ledger, unit, release, 1, Privacy(), phase="train", reply=unit, unit=unit)


def test_a_policy_ends_what_goes_beyond_its_budget(tmp_path):
    policy = "[privacy]\nmax-epsilon = 5\n"
    nodes = nodes_in(tmp_path, policy)
    run(tmp_path, "first", nodes=nodes, clients=2, **SETTINGS)
    with pytest.raises(FederationError, match=r"max-epsilon = 5"):
        run(tmp_path, "second", nodes=nodes, clients=2, **SETTINGS)
    with pytest.raises(FederationError, match=r"dp.unit"):
        run(tmp_path, "third", nodes=nodes, clients=2, **SETTINGS | OPEN)


CALIBRATED = SETTINGS | {"method": "spherefed", "secure_sum": True, "num_rounds": 2}


def test_rounds_and_their_calibration_cost_one_epsilon(tmp_path):
    """And a server that asks for a second calibration, or for less noise, gets nothing."""
    nodes = nodes_in(tmp_path, "[privacy]\nmax-epsilon = 4.01\n", count=3)
    made = run(tmp_path, nodes=nodes, clients=3, **CALIBRATED)
    assert made.summary["metrics"]["global_accuracy_calibrated"] is not None
    assert made.summary["metrics"]["privacy_epsilon"] == 4
    lines = costs(tmp_path)
    assert [line["phase"] for line in lines] == ["train", "train", "calibrate"]
    releases = [Release(line["noise"], line["rate"], line["times"]) for line in lines]
    assert epsilon_of(releases, 1e-5) == pytest.approx(4, rel=1e-3)
    assert epsilon_of(releases[-1:], 1e-5) == pytest.approx(2, rel=1e-3)
    (made.path / "summary.json").unlink()
    run(tmp_path, nodes=nodes, clients=3, resume=True, **CALIBRATED)
    assert costs(tmp_path) == lines
    with pytest.raises(FederationError, match=r"max-epsilon = 4"):
        run(tmp_path, "less", nodes=nodes, clients=3, **CALIBRATED | {"dp__epsilon": 8.0})


def test_rounds_do_not_pay_for_a_second_calibration(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    plan = {"train": (Release(9.0), 3), "calibrate": (Release(6.0), 1)}
    epsilon = epsilon_of([Release(9.0, times=3), Release(6.0)], 1e-5)
    check_budget(ledger, "run", plan, Privacy(max_epsilon=epsilon + 1e-6), "record")
    with pytest.raises(ConfigError, match="max-epsilon"):
        check_budget(ledger, "run", plan, Privacy(max_epsilon=epsilon - 1e-3), "record")
    paid = {"phase": "calibrate", "unit": "record"}
    pay(ledger, "run", Release(6.0), 1, Privacy(), reply="one", **paid)
    with pytest.raises(ConfigError, match="calibrate"):
        pay(ledger, "run", Release(6.0), 1, Privacy(), reply="two", **paid)
    check_budget(ledger, "run", plan, Privacy(max_epsilon=epsilon + 1e-6), "record")


PRIVATE = {"method": "fedavg", "dataset": "digits", "dp.unit": "record", "dp.epsilon": 1.0}

REFUSED = [
    ({"dp.unit": "none"}, "dp.epsilon"),
    ({"dp.epsilon": "auto"}, "a number for dp.epsilon"),
    ({"dataset": "cora"}, "neighbours"),
    ({"dataset": "mutag", "model": "torch.nn:Linear"}, "a built-in network"),
    ({"method": "moon"}, "mean over examples"),
    ({"method": "fedrep"}, "mean over examples"),
    ({"method": "spherefed"}, "adds a share of the noise"),
    ({"method": "hyperfed"}, "consistent"),
    ({"method": "hyperfed", "aggregation": "average", "hyperfed.mixup": 2.0}, "mixup"),
    ({"images.norm": "batch"}, "group"),
    ({"mixed-precision": True}, "mixed-precision = false"),
    ({"fine-tune-epochs": 1}, "fine-tune-epochs = 0"),
    ({"early-stopping": 3}, "early-stopping = 0"),
    ({"share-statistics": True}, "share-statistics = false"),
    ({"dp.unit": "client", "calibration": "ffc"}, "secure-sum"),
]


@pytest.mark.parametrize(("keys", "reason"), REFUSED)
def test_what_is_not_private_is_refused_with_the_reason(keys, reason):
    with pytest.raises(ConfigError, match=reason):
        parse(defaults() | PRIVATE | keys)


@pytest.mark.parametrize("unit", ["record", "client"])
def test_a_plan_without_epsilon_is_a_wrong_key(unit):
    config = resolve_defaults(parse(defaults() | PRIVATE), "images")
    keys = keys_of(config).model_copy(update={"unit": unit, "epsilon": None})
    without = config.model_copy(update={"dp": keys})
    with refuses("no-epsilon", f"dp.unit = {unit}", "a number for dp.epsilon", error=ConfigError):
        planned_releases(without, 10)


def test_a_learner_that_says_it_hides_no_records_is_refused(monkeypatch):
    parse(defaults() | PRIVATE | {"method": "fednova"})
    monkeypatch.setattr(FedNovaClient, "hides_records", False)
    with pytest.raises(ConfigError, match="mean over examples"):
        parse(defaults() | PRIVATE | {"method": "fednova"})


def test_check_promises_no_score_that_a_private_run_lacks(capsys):
    words = ("check", "method=fedavg", "dataset=digits", "num-supernodes=2")
    assert main([*words, "dp.unit=record", "dp.epsilon=3"]) == 0
    assert "personal scores" not in capsys.readouterr().out
    assert main([*words]) == 0
    assert "personal scores: of " in capsys.readouterr().out

"""Our aggregations as strategies of Flower do the same as in our own round loop."""

import logging
import random

import numpy as np
import pytest
from app_runs import Recorder, partition_of, run
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp
from tiers import only

from curvfed.deployments.inprocess import InProcessGrid, simulated_nodes
from curvfed.flower import ConsistentAggregation, SplitAggregation, strategy
from curvfed.strategies.base.aggregation import AggregationError
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS

pytestmark = pytest.mark.usefixtures("own_home")

CLIENTS, ROUNDS = 4, 3
WHOLE = {"min_available_nodes": CLIENTS, "min_train_nodes": CLIENTS, "fraction_evaluate": 0.0}
DIGITS = {
    "dataset": "digits",
    "images__train_subset": 160,
    "images__test_subset": 50,
    "local_epochs": 1,
    "batch_size": 8,
    "fine_tune_epochs": 0,
}
SHARING = {name: row for name, row in METHODS.items() if row.personal != ("*",)}
ONE_OF_EACH = list(
    {row.aggregation: name for name, row in SHARING.items() if not row.is_one_shot}.values()
)


def nodes(number=CLIENTS):
    """Partition 0 has the lowest node id, so that replies are in the order of partitions."""
    return simulated_nodes(number)[::-1]


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def arrays_of(content, key="arrays"):
    return {name: array.numpy() for name, array in content[key].items()} if key in content else {}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name])


class Replay:
    """Clients of another app that have the updates of a recorded run, and note what comes."""

    def __init__(self, recorder):
        pairs = [
            (asked, reply) for asked, reply in recorder.pairs if asked["header"]["phase"] == "train"
        ]
        self.asked = {(a["header"]["round"], partition_of(r)): arrays_of(a) for a, r in pairs}
        self.replies = {(a["header"]["round"], partition_of(r)): r for a, r in pairs}
        self.sent = {}
        self.app = ClientApp()
        self.app.train()(self.train)

    def train(self, message, context):
        place = message.content["config"]["server-round"], context.node_config["partition-id"]
        assert message.content["config"]["client"] == place[1]
        self.sent[place] = arrays_of(message.content)
        reply = self.replies[place]
        metrics = MetricRecord(
            {
                "num-examples": reply["header"]["num_examples"],
                "num-steps": int(reply["metrics"]["steps"]),
                "loss": reply["metrics"]["loss"],
            }
        )
        return FlowerMessage(
            RecordDict({"arrays": reply["arrays"], "metrics": metrics}), reply_to=message
        )

    def check(self):
        """They were sent what the clients of the recorded run were."""
        assert self.sent.keys() == self.asked.keys()
        for place, arrays in self.sent.items():
            assert_equal(arrays, self.asked[place])

    def start(self, chosen, more=()):
        # a model, or the core of one for every client, and what a protocol has besides
        first = self.asked[1, 0]
        names = [name for name in arrays_of(self.replies[1, 0]) if "/" not in name] or list(first)
        initial = {name: first.get(name, first.get(f"core/0/{name}")) for name in names} | dict(
            more
        )
        return chosen.start(
            InProcessGrid(self.app, {}, nodes()), record(initial), num_rounds=ROUNDS
        )


def recorded(folder, method, **settings):
    task = METHODS[method].tasks[0]
    more = (
        DIGITS
        if task == "images"
        else {"dataset": "trees" if task == "nodes" else "auto", "local_epochs": 2}
    )
    recorder = Recorder()
    outcome = run(
        folder,
        method=method,
        clients=CLIENTS,
        num_rounds=ROUNDS,
        intercept=recorder,
        **more | settings,
    )
    return outcome, Replay(recorder)


def test_consistent_aggregation_is_our_own_loops(tmp_path):
    outcome, clients = recorded(
        tmp_path, "hyperfed", hyperfed__radius=0.7, hyperfed__deviations="raw"
    )
    chosen = ConsistentAggregation(radius=0.7, deviations="raw", **WHOLE)
    result = clients.start(chosen)
    clients.check()
    final = {name: array.numpy() for name, array in result.arrays.items()}
    assert_equal(final, {name: outcome.model[name] for name in final})
    assert len(final) > 3
    last = [
        row for row in outcome.clients if row["round"] == str(ROUNDS) and row["phase"] == "train"
    ]
    assert chosen.aggregation.weights == {
        int(row["partition"]): float(row["weight"]) for row in last
    }
    losses = [float(row["loss"]) for row in last]
    assert min(losses) < result.train_metrics_clientapp[ROUNDS]["loss"] < max(losses)


def test_the_split_is_our_own_loops(tmp_path):
    outcome, clients = recorded(tmp_path, "flatland")
    personal = METHODS["flatland"].personal
    kept = {pattern.replace("*", "mine"): np.ones(3, np.float32) for pattern in personal}
    result = clients.start(SplitAggregation(personal=personal, **WHOLE), kept)
    clients.check()
    assert_equal({name: array.numpy() for name, array in result.arrays.items()}, outcome.model)


@pytest.mark.parametrize("method", only(ONE_OF_EACH, ONE_OF_EACH[::4].__contains__))
def test_every_aggregation_is_our_own_loops(method, tmp_path):
    """What each client is sent in each round, own starts included, and the state at the end."""
    outcome, clients = recorded(tmp_path, method)
    chosen = strategy(method, num_rounds=ROUNDS, **WHOLE)
    clients.start(chosen)
    clients.check()
    state = chosen.aggregation.state()
    assert state
    assert_equal(state, {name: array for name, array in outcome.model.items() if name in state})


# --- Clients of an ordinary app


START = {
    "w": np.zeros((2, 3), np.float32),
    "head.time": np.zeros(2, np.float32),
    "bn.num_batches_tracked": np.array(0),
    "b": np.zeros(2, np.float16),
}
SHARED = ["w", "bn.num_batches_tracked", "b"]


def plain(change=None, evaluated=None):
    """Adds its number and one to what it is sent; then `change(partition, arrays, metrics)`."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        partition = context.node_config["partition-id"]
        arrays = {
            name: (array + partition + 1).astype(array.dtype)
            for name, array in arrays_of(message.content).items()
        }
        metrics = {"num-examples": partition + 1, "loss": float(partition)}
        content = {"arrays": arrays, "metrics": metrics}
        if change is not None:
            change(partition, content["arrays"], content["metrics"])
        return FlowerMessage(
            RecordDict({"arrays": record(arrays), "metrics": MetricRecord(metrics)}),
            reply_to=message,
        )

    @app.evaluate()
    def evaluate(message, context):
        if evaluated is not None:
            evaluated.append((context.node_config["partition-id"], arrays_of(message.content)))
        return FlowerMessage(
            RecordDict({"metrics": MetricRecord({"num-examples": 1, "accuracy": 0.5})}),
            reply_to=message,
        )

    return app


def started(chosen, change=None, number=3, rounds=1, start=START, evaluated=None):
    return chosen.start(
        InProcessGrid(plain(change, evaluated), {}, nodes(number)), record(start), num_rounds=rounds
    )


def test_personal_arrays_are_neither_sent_nor_taken_and_the_order_stays():
    evaluated = []
    result = started(SplitAggregation(personal=("*.time",)), evaluated=evaluated)
    assert list(result.arrays) == SHARED
    assert {tuple(arrays) for _, arrays in evaluated} == {tuple(SHARED)}
    mean = (1 + 4 + 9) / 6
    np.testing.assert_allclose(result.arrays["w"].numpy(), np.full((2, 3), mean), rtol=1e-6)
    np.testing.assert_allclose(result.arrays["b"].numpy(), np.full(2, mean), rtol=1e-3)
    assert result.arrays["bn.num_batches_tracked"].numpy() == round(mean)
    assert {name: array.numpy().dtype for name, array in result.arrays.items()} == {
        n: START[n].dtype for n in SHARED
    }
    assert result.train_metrics_clientapp[1]["loss"] == pytest.approx(8 / 6)
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5


BAD = {
    "has a personal array": lambda arrays, metrics: arrays.update(
        {"head.time": START["head.time"]}
    ),
    "lacks an array": lambda arrays, metrics: arrays.pop("w"),
    "has another shape": lambda arrays, metrics: arrays.update(w=np.zeros((3, 2), np.float32)),
    "has another dtype": lambda arrays, metrics: arrays.update(w=np.zeros((2, 3))),
    "is not finite": lambda arrays, metrics: arrays.update(w=np.full((2, 3), np.nan, np.float32)),
    "has no number of examples": lambda arrays, metrics: metrics.pop("num-examples"),
    "has one that is no number": lambda arrays, metrics: metrics.update(
        {"num-examples": float("nan")}
    ),
    "has a list of them": lambda arrays, metrics: metrics.update({"num-examples": [1, 2]}),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_reply_is_dropped_with_its_reason(bad, caplog):
    def change(partition, arrays, metrics):
        if partition == 1:
            BAD[bad](arrays, metrics)

    logger = logging.getLogger("flwr")
    logger.addHandler(caplog.handler)
    try:
        result = started(SplitAggregation(personal=("*.time",)), change)
    finally:
        logger.removeHandler(caplog.handler)
    np.testing.assert_allclose(result.arrays["w"].numpy(), np.full((2, 3), (1 + 9) / 4), rtol=1e-6)
    assert [
        line
        for line in caplog.messages
        if line.startswith("round 1: dropped the reply of node 3: ")
    ]

    def all_of_them(partition, arrays, metrics):
        BAD[bad](arrays, metrics)

    with pytest.raises(
        AggregationError,
        match=r"^round 1: 0 good replies of 3, needed are 1 \(min_replies\)\. node ",
    ):
        started(SplitAggregation(personal=("*.time",)), all_of_them)


def test_a_client_that_fails_is_dropped_and_too_few_end_the_run():
    def change(partition, arrays, metrics):
        if partition == 1:
            raise ValueError("no data")

    result = started(ConsistentAggregation(radius=0.0, min_replies=2), change)
    np.testing.assert_allclose(result.arrays["w"].numpy(), np.full((2, 3), (1 + 9) / 4), rtol=1e-6)
    with pytest.raises(AggregationError, match="2 good replies of 3, needed are 3"):
        started(ConsistentAggregation(min_replies=3), change)


def test_a_result_that_is_not_finite_ends_the_run():
    def change(partition, arrays, metrics):
        arrays["w"] = np.full((2, 3), -3e38 if partition else 3e38, np.float32)

    with pytest.raises(AggregationError, match=r"w is not finite after the aggregation"):
        started(strategy("fedopt", learning_rate=5.0), change, start={"w": START["w"]})


def test_who_is_sampled_is_flowers_affair_and_who_is_not_is_not_awaited():
    random.seed(0)
    asked = []

    def change(partition, arrays, metrics):
        asked.append(partition)

    result = started(
        ConsistentAggregation(fraction_train=0.5, fraction_evaluate=0.25),
        change,
        number=8,
        rounds=4,
    )
    assert len(asked) == 16
    assert len(set(asked)) > 4
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2, 3, 4]


def test_fednova_asks_for_steps():
    def steps(partition, arrays, metrics):
        metrics["num-steps"] = partition + 1

    result = started(
        strategy("fednova", momentum=0.0), steps, start={"w": START["w"].astype(float)}
    )
    # Wang et al.: all deviations are 1 for each step, and the sum goes as far as the mean number of
    # steps.
    np.testing.assert_allclose(result.arrays["w"].numpy(), np.full((2, 3), (1 + 4 + 9) / 6))
    with pytest.raises(
        AggregationError, match='the metric "num-steps" is None; allowed is a whole number'
    ):
        started(strategy("fednova", momentum=0.0))


@pytest.mark.parametrize("method", ["scaffold", "apple"])
def test_clients_that_do_not_know_a_protocol_are_reported_of_it(method):
    def change(partition, arrays, metrics):
        for name in arrays.keys() - START.keys():
            del arrays[name]
        arrays["own"] = np.zeros(1)

    with pytest.raises(
        AggregationError, match="works with clients that know its protocol: they are sent"
    ):
        started(strategy(method), change)


@pytest.mark.parametrize(
    ("method", "lacks"),
    [("fedgta", "head.bias"), ("fedsage+", "first.weight"), ("fed-pub", "embedding")],
)
def test_aggregations_that_need_our_names_say_so(method, lacks):
    with pytest.raises(ConfigError, match=f"lacks '{lacks}'.*shared arrays are w, "):
        started(strategy(method))


def test_what_cannot_be_is_refused_in_words():
    for wrong in ({"radius": -1}, {"radius": float("nan")}, {"deviations": "both"}):
        with pytest.raises(ConfigError, match="allowed are a number >= 0"):
            ConsistentAggregation(**wrong)
    with pytest.raises(ConfigError, match="allowed is a sequence of patterns"):
        SplitAggregation(personal="*.time")
    with pytest.raises(ConfigError, match="allowed are patterns that leave some of these: w, "):
        started(SplitAggregation(personal=("*",)))
    with pytest.raises(ConfigError, match=r'strategy\("hull"\): no method of rounds'):
        strategy("hull")
    with pytest.raises(
        ConfigError, match=r'strategy\("fedsgd"\): no method of rounds.*`curvfed methods` lists all'
    ):
        strategy("fedsgd")
    with pytest.raises(ConfigError, match='unknown key "learning"'):
        strategy("fedopt", learning=1)
    with pytest.raises(ConfigError, match=r"fedopt\.beta1 = 2: allowed is a number"):
        strategy("fedopt", beta1=2)


def test_the_configuration_goes_to_the_clients():
    seen = []

    def intercept(request, handle):
        seen.append(dict(request.content["config"]))
        return handle(request)

    grid = InProcessGrid(plain(), {}, nodes(2), intercept)
    ConsistentAggregation(fraction_evaluate=0.0).start(
        grid, record(START), num_rounds=1, train_config=ConfigRecord({"lr": 0.1})
    )
    assert sorted(config["client"] for config in seen) == [0, 1]
    assert {(config["lr"], config["server-round"]) for config in seen} == {(0.1, 1)}

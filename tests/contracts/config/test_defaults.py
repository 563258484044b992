"""What a run uses where its configuration leaves the choice to the task or the method."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.registry import tasks_of

EXPLICIT: dict[str, list[Any]] = {
    "local-epochs": [1, 3, 10_000],
    "batch-size": [0, 1, 64],
    "optimizer": ["adam", "sgd"],
    "optimizer-state": ["kept", "fresh", "personal"],
    "learning-rate": [0.0, 1e-9, 0.3, 10.0],
    "embedding-dim": [0, 1, 64],
    "partition": ["random", "iid", "stratified"],
    "train-size": [0.1, 0.5],
    "test-size": [0.1, 0.2],
    "fine-tune-epochs": [0, 1, 7],
    "clip-norm": [0.0, 5.0],
    "fine-tune": ["trained", "all", "head"],
    "aggregation": ["average", "consistent", "fednova", "fedopt", "flower:FedMedian"],
    "weights": ["examples", "uniform"],
    "schedule": ["constant", "cosine", "steps", "inverse"],
    "decay-every": [1, 7],
}
"""Keys that can be left open, and values that leave nothing open."""

OPEN = {name.replace("-", "_"): getattr(RunConfig(), name.replace("-", "_")) for name in EXPLICIT}

METHOD_AND_TASK = [(name, task) for name, row in METHODS.items() for task in row.tasks]


def config_of(method: str, **more: Any) -> RunConfig:
    return RunConfig(method=method, **{key.replace("-", "_"): value for key, value in more.items()})


@pytest.mark.parametrize(("method", "task"), METHOD_AND_TASK)
def test_nothing_stays_open(method, task):
    chosen = resolve_defaults(config_of(method), task)
    assert {name for name, value in OPEN.items() if getattr(chosen, name) == value} == set()
    own = {name: getattr(RunConfig(), name) for name in METHODS[method].settings.get(task, {})}
    assert chosen.model_copy(update=OPEN | own) == config_of(method)  # and nothing else is touched


@given(
    st.sampled_from(METHOD_AND_TASK),
    st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(values) for key, values in EXPLICIT.items()}
    ),
)
def test_what_is_given_stays_and_settling_twice_is_settling_once(method_and_task, given_values):
    method, task = method_and_task
    chosen = resolve_defaults(config_of(method, **given_values), task)
    assert {key: getattr(chosen, key.replace("-", "_")) for key in given_values} == given_values
    assert resolve_defaults(chosen, task) == chosen
    alone = resolve_defaults(config_of(method), task)
    others = {name for name in OPEN if name.replace("_", "-") not in given_values}
    if task == "points":
        others -= {"train_size"}  # what is left
    if "optimizer" in given_values:
        others -= {"optimizer_state"}  # kept with adam, fresh with sgd
    assert {name: getattr(chosen, name) for name in others} == {
        name: getattr(alone, name) for name in others
    }


@pytest.mark.parametrize("method", METHODS)
def test_auto_is_a_built_in_data_set_that_the_method_works_on(method):
    tasks = METHODS[method].tasks
    names = {"nodes": "trees", "images": "digits", "points": "uniform", "links": "balanced-tree"}
    built_in = names[tasks[0]]
    assert parse({"method": method}).dataset == KINDS[tasks[0]].built_in == built_in
    assert parse({"method": method, "dataset": "auto"}) == parse({"method": method})
    assert set(tasks_of(parse({"method": method}).dataset)) <= set(tasks)

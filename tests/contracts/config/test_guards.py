"""A guard that another package adds: its keys are those of every run, and it shapes what leaves."""

import pytest
from plugin_package import answers_of

MODULE = """
import numpy as np
from curvfed.client_app.guard import ClientGuard
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.keys import Table


class Keys(Table):
    on: bool = False
    \"\"\"hide the clients\"\"\"
    share: float = 0.5
    \"\"\"share of a limit\"\"\"


class Client(ClientGuard):
    def hide(self, header, arrays, variances, bound):
        return lambda residues, encoding, session: residues


class Mine(Guard):
    table = "my-guard"
    keys_class = Keys
    client_half = "brings:Client"

    def __init__(self, config):
        super().__init__(config)
        self.unit = "client" if self.keys.on else ""

    @property
    def settings(self):
        return {"weights": "uniform"}

    def conflict(self, tasks):
        if self.keys.on and not self.config.secure_sum:
            return "my-guard.on secure-sum", "secure-sum = true"
        return "", ""

    def figures(self, sizes, rounds):
        return {"my_rounds": rounds}

    def limit(self, sent):
        return self.keys.share


class Twin(Mine):
    table = "twin"


class Taken(Guard):
    table = "secure"


FIGURES = ()
"""
POINTS = {
    "curvfed.guards": {
        "my-guard": "brings:Mine",
        "twin": "brings:Twin",
        "taken": "brings:Taken",
        "text": "brings:FIGURES",
        "absent": "brings:ABSENT",
    }
}

ASK = """
import json
import sys
import curvfed
from curvfed.client_app.node.policy import Policy
from curvfed.strategies.base.guard import guards
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError

MINE = {"method": "fedavg", "dataset": "digits", "my-guard.on": True}
refusals = []
for keys in (MINE, MINE | {"secure-sum": True, "twin.on": True}, MINE | {"my-guard.share": "x"}):
    try:
        parse(keys)
    except ConfigError as error:
        refusals.append(str(error))
policy = Policy.model_validate({"runs": {"keys": {"my-guard.on": [True]}}})
for is_on in (False, True):
    try:
        policy.check_run(parse(MINE | {"my-guard.on": is_on, "secure-sum": True}), owns_data=False)
    except ConfigError as error:
        refusals.append(str(error))
clipped = curvfed.simulate(
    **MINE | {"secure-sum": True, "my-guard.share": 1e-3, "images.train-subset": 200},
    num_supernodes=3, num_rounds=1, optimizer="sgd", results_dir=sys.argv[1], quiet=True, report=False,
)
print(json.dumps({
    "guards": list(guards()),
    "weights": resolve_defaults(parse(MINE | {"secure-sum": True}), "images").weights,
    "metrics": clipped.summary["metrics"],
    "personal": clipped.summary["personal_accuracy_mean"],
    "refusals": refusals,
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return answers_of(tmp_path_factory.mktemp("guards"), "brings", MODULE, POINTS, ASK)


def test_guards_that_will_not_do_are_left_out_with_the_reason(answers):
    assert answers["guards"][-2:] == ["my-guard", "twin"]
    for name in ("taken", "text", "absent"):
        assert f"curvfed.guards: {name} is left out" in answers["printed"]


def test_its_keys_are_those_of_every_run(answers):
    conflict, both, wrong, off = answers["refusals"]
    assert "allowed is secure-sum = true" in conflict
    assert "keys of my-guard and twin: allowed is one of these guards" in both
    assert "my-guard.share = 'x': allowed is a number" in wrong
    assert 'does not allow my-guard.on = false: [runs] keys, "my-guard.on"' in off
    assert answers["weights"] == "uniform"


def test_it_decides_what_leaves(answers):
    assert answers["metrics"]["my_rounds"] == 1
    assert answers["personal"] is None
    assert "100% of the updates were longer" in answers["printed"]

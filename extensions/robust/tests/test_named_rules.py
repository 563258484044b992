"""The robust aggregations where a user asks for a method, or gives one a key of another."""

import pytest

from curvfed.deployments.commands.command import main
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import parse


@pytest.mark.parametrize("name", ["median", "trimmed-mean"])
def test_the_list_of_methods_knows_aggregations(name, capsys):
    assert main(["methods", name]) == 0
    said = capsys.readouterr().out
    assert f"aggregation={name} with a" in said
    assert ("robust.share" in said) is (name == "trimmed-mean")


def test_a_key_of_another_aggregation_names_aggregations():
    config = parse({"method": "fedavg", "aggregation": "median", "robust.share": 0.3})
    said = unread_keys(config)
    assert "robust.share = 0.3 is a key of aggregation = trimmed-mean" in said
    assert said.endswith(
        "aggregation = median does not read it and trains as without it; remove it, or choose an aggregation that reads it"
    )
    other = unread_keys(parse({"method": "fedavg", "fedprox.mu": 0.3}))
    assert other.endswith("choose a method that reads it")
    both = unread_keys(
        parse({"method": "fedavg", "fedprox.mu": 0.3, "scaffold.learning-rate": 0.5})
    )
    assert both.endswith("remove them, or choose a method that reads them")

"""Everything that the page docs/reference.md lists has an example in its docstring, and the
examples are true."""

import doctest
import importlib

import pytest


# The other modules' examples are run beside their tests.
@pytest.mark.parametrize(
    "name",
    [
        "strategies.base.method",
        "strategies.base.learner",
        "strategies.base.aggregation",
        "strategies.base.training",
        "tasks.task",
    ],
)
def test_the_examples_are_true(name):
    found = doctest.testmod(importlib.import_module(f"curvfed.{name}"))
    assert found.failed == 0
    assert found.attempted > 0

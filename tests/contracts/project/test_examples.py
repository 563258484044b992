"""Everything on docs/reference.md has an example in its docstring, and it is true."""

import doctest
import importlib
from typing import Any

import pytest

import curvfed
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import Method


# The other modules' examples are run beside their tests.
@pytest.mark.parametrize(
    "name",
    [
        "strategies.base.method",
        "strategies.base.learner",
        "strategies.base.aggregation",
        "strategies.base.further_state",
        "strategies.base.mean_only",
        "strategies.base.training",
        "tasks.task",
    ],
)
def test_the_examples_are_true(name):
    result = doctest.testmod(importlib.import_module(f"curvfed.{name}"))
    assert result.failed == 0
    assert result.attempted > 0


def example_classes(module: str) -> list[type]:
    """The halves of methods that the docstrings of a module show."""
    result = []
    for test in doctest.DocTestFinder().find(importlib.import_module(f"curvfed.{module}")):
        names: dict[str, Any] = dict(test.globs)
        source = "\n".join(example.source for example in test.examples)
        if "class " not in source:
            continue
        exec(source, names)  # the project's own docstrings
        result += [
            value
            for name, value in names.items()
            if name not in test.globs
            and isinstance(value, type)
            and issubclass(value, Learner | Aggregation)
            and value.__module__ == test.globs["__name__"]
        ]
    return result


EXAMPLES = [
    half
    for module in (
        "strategies.base.learner",
        "strategies.base.aggregation",
        "strategies.base.mean_only",
    )
    for half in example_classes(module)
]


@pytest.mark.parametrize("half", EXAMPLES, ids=lambda half: half.__name__)
def test_a_class_in_a_docstring_runs_as_a_method(half, tmp_path):
    method = half
    if issubclass(half, Aggregation):
        method = Method("the example of a docstring", space="flat", server=half)
    keys = {"num_supernodes": 2, "num_rounds": 2, "report": False, "quiet": True}
    made = curvfed.simulate(method, dataset="trees", results_dir=tmp_path, **keys)
    assert made.rounds.replies.tolist()[-2:] == [2, 2]


def test_docstrings_show_halves_of_methods():
    assert {half.__name__ for half in EXAMPLES} >= {"TwoPasses", "Latest", "Momentum"}

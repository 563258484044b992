"""A run predicts and resumes with the code of its model, not with another of the same name."""

from functools import partial

import pytest

import curvfed
from curvfed.extensions.model_code.code_digest import code_digest, differs, model_digest
from curvfed.strategies.errors import ConfigError

CELL = '''
import math, torch

scale = 1.0
body = 3
calls = 0


class Block(torch.nn.Module):
    def forward(self, x):
        return scale * x


def flat(x):
    """All pixels in one row."""
    return x.flatten(1)


class Net(torch.nn.Module):
    def __init__(self, shape, classes, bias=True):
        super().__init__()
        self.body = torch.nn.Linear(math.prod(shape), classes, bias)
        self.block = Block()

    def forward(self, x):
        global calls
        calls += 1
        return self.block(self.body(flat(x)))
'''

SAME = {
    "a comment": ("scale = 1.0", "scale = 1.0  # of the outputs\n\n"),
    "a docstring": ("All pixels in one row.", "Of all pixels one row."),
    "a counter": ("calls = 0", "calls = 7"),
    "a variable of an attribute's name": ("body = 3", "body = 4"),
}
CHANGED = {
    "forward": ("return self.block", "return -self.block"),
    "a layer's class": ("return scale * x", "return scale + x"),
    "a function": ("x.flatten(1)", "x.flatten(1).flip(1)"),
    "a constant": ("scale = 1.0", "scale = -1.0"),
    "a default": ("bias=True", "bias=False"),
}
KEYS = {"dataset": "digits", "num_supernodes": 2, "num_rounds": 1, "report": False, "quiet": True}


def cell(replaced=("", "")):
    """The class `Net` of a notebook whose cell was run with this change."""
    names = {"__name__": "__main__"}
    exec(CELL.replace(*replaced) if replaced[0] else CELL, names)
    return names["Net"]


@pytest.mark.parametrize("change", SAME)
def test_what_computes_the_same_has_one_digest(change):
    assert code_digest(cell(SAME[change])) == code_digest(cell())


@pytest.mark.parametrize("change", CHANGED)
def test_what_computes_something_else_has_another(change):
    assert code_digest(cell(CHANGED[change])) != code_digest(cell())


def test_keywords_and_versions_of_python():
    assert code_digest(partial(cell(), bias=False)) == code_digest(cell())  # the name has them
    assert model_digest(None) == model_digest("gcn") == ""
    assert not differs("3.11:aa", "3.12:bb")
    assert differs("3.11:aa", "3.11:bb")


def test_a_class_defined_again_is_refused(tmp_path):
    keys = KEYS | {"results_dir": tmp_path}
    first = curvfed.simulate("local", model=cell(), run_name="first", **keys)
    answers = first.predict("digits", client=0)
    curvfed.simulate("fedavg", model=cell(SAME["a comment"]), **keys)
    assert first.predict("digits", client=0).equals(answers)
    other = cell(CHANGED["forward"])
    curvfed.simulate("fedavg", model=other, **keys)
    for use in (lambda: first.predict("digits", client=0), lambda: first.model(client=0)):
        with pytest.raises(ConfigError, match=r"the code of model = .*Net.* is another"):
            use()
    again = keys | {"num_rounds": 2, "resume": True}
    with pytest.raises(ConfigError, match=r"the code of model = .*Net.* is another"):
        curvfed.simulate("local", model=other, run_name="first", **again)
    assert first.data.task == "images"
    curvfed.simulate("fedavg", model=cell(), **keys)
    assert first.predict("digits", client=0).equals(answers)

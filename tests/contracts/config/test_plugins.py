"""What other packages bring: found by name, typed, left out with a reason if it won't do."""

import pytest
from plugin_package import package, python

ROW = """
from typing import Literal
from pydantic import Field, model_validator
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.keys import Rate, Table

class Keys(Table):
    pull_strength: Rate = Field(default=0.5, gt=0, lt=2, description="how hard it pulls")
    kind: Literal["a", "b"] = Field(default="a", description="which")

    @model_validator(mode="after")
    def _fits(self):
        if self.kind == "b" and self.pull_strength > 1:
            raise ValueError("b pulls by at most 1")
        return self

class Other(Table):
    epsilon: float = 0.1

class Odd(Table):
    numbers: tuple[int, ...] = ()

MINE = Method("mine", space="flat", keys={"my-way": Keys})
VARIANT = Method("mine, otherwise", space="flat", keys={"my-way": Keys})
TAKES_SEED = Method("takes a key's name", space="flat", keys={"seed": Other})
TAKES_TABLE = Method("takes a table's name", space="flat", keys={"my-way": Other})
ODD = Method("keys that no run config has", space="flat", keys={"odd": Odd})
NO_TASK = Method("a task that does not exist", space="flat", tasks=("node",))
NO_KEY = Method(
    "a key that does not exist", space="flat", keys={"my-way": Keys}, tuned={"nodes": {"my-way.knd": ("b",)}}
)
NO_SPACE = Method("a space that does not exist", space="hyperbolics")
NO_SETTING = Method("a key that does not exist", space="flat", settings={"nodes": {"local_epoch": 5}})
NO_EFFECT = Method("a key that is never open", space="flat", settings={"nodes": {"momentum": 0.5}})
NO_VALUE = Method("no number", space="flat", settings={"nodes": {"local_epochs": "five"}})
NO_ROW = "text"
"""
POINTS = {
    "curvfed.methods": {
        "mine": "brings:MINE",
        "mine-variant": "brings:VARIANT",
        "seedy": "brings:TAKES_SEED",
        "twin": "brings:TAKES_TABLE",
        "odd": "brings:ODD",
        "no-task": "brings:NO_TASK",
        "no-key": "brings:NO_KEY",
        "no-space": "brings:NO_SPACE",
        "no-setting": "brings:NO_SETTING",
        "no-effect": "brings:NO_EFFECT",
        "no-value": "brings:NO_VALUE",
        "my way": "brings:MINE",
        "exits": "exits:ROW",
        "text": "brings:NO_ROW",
        "absent": "brings:ABSENT",
        "gone": "not_there:ROW",
        "fedavg": "brings:MINE",
    },
    "curvfed.models": {"gcn": "brings:MINE", "other": "brings:MINE"},
    "curvfed.datasets": {"Digits": "brings:MINE", "mine": "brings:MINE"},
}

ASK = """
import sys
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.config.parse import allowed, fields, parse
from curvfed.strategies.config.run_config import flatten
for word in sys.argv[1:]:
    try:
        config = parse(dict([pair.split("=", 1) for pair in word.split(";")]))
        print(config.method, config.extra == "", {key: value for key, value in flatten(config).items() if "my-way" in key})
    except ConfigError as error:
        print("refused:", error)
"""


KEYS = [
    "method=mine;extra=my-way.pull-strength=1 my-way.kind=b",
    "method=mine-variant",
    "method=mine;my-way.kind=b;extra=my-way.kind=b",
    "method=mine;my-way.kind=b;extra=my-way.kind=a",
    "method=mine;extra=my-way.pull-strength=2",
    "method=mine;extra=my-way.kind=c",
    "method=mine;extra=my-way.knd=b",
    "method=mine;extra=my-way.kind=b my-way.pull-strength=1.5",
]
LEFT_OUT = {
    "seedy": 'its keys have the table "seed"',
    "twin": 'its keys have the table "my-way"',
    "odd": 'its table "odd" cannot be taken',
    "no-task": 'it names the task "node"; allowed are nodes, graphs, images, points',
    "no-key": 'its "tuned" names the key "my-way.knd"; allowed are keys of every run, and its own:'
    " my-way.pull-strength, my-way.kind",
    "no-space": 'its space is "hyperbolics"; allowed are flat, lorentz',
    "no-setting": 'its "settings" name "local_epoch"; allowed are',
    "no-effect": 'its "settings" name "momentum"; allowed are',
    "no-value": "its \"settings\" have local_epochs = 'five': Input should be a valid integer",
    "my way": "allowed are letters, digits and . _ - in a name",
    "exits": '"exits:ROW" cannot be imported here (SystemExit: 2)',
    "text": "its entry point is 'text'",
    "absent": '"brings:ABSENT" cannot be imported here (AttributeError',
    "gone": '"not_there:ROW" cannot be imported here (ModuleNotFoundError',
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What one process prints of all these configurations."""
    folder = tmp_path_factory.mktemp("plugins")
    package(folder / "site", "brings", ROW, POINTS)
    (folder / "site" / "exits.py").write_text("raise SystemExit(2)\n")
    words = (*KEYS, "method=fedavg", *(f"method={name}" for name in LEFT_OUT))
    return python(ASK, folder / "home", folder / "site", words=words)


def lines_of(answers: str) -> list[str]:
    return [line for line in answers.splitlines() if not line.startswith("curvfed.")]


def test_keys_of_a_package_are_keys(answers):
    expected = [
        "mine True {'my-way.pull-strength': 1.0, 'my-way.kind': 'b'}",
        "mine-variant True {'my-way.pull-strength': 0.5, 'my-way.kind': 'a'}",
        "mine True {'my-way.pull-strength': 0.5, 'my-way.kind': 'b'}",
        "refused: extra = \"my-way.kind=a\": 'my-way.kind=a', and my-way.kind = 'b'",
        "refused: my-way.pull-strength = 2: allowed is a number > 0 and < 2",
        'refused: my-way.kind = \'c\': allowed is one of "a", "b"',
        'refused: unknown key "my-way.knd"; did you mean "my-way.kind"?',
        "refused: my-way: Value error, b pulls by at most 1",
    ]
    assert len(expected) == len(KEYS)
    for line, beginning in zip(lines_of(answers)[: len(KEYS)], expected, strict=True):
        assert line.startswith(beginning)


def test_what_will_not_do_is_left_out_with_a_reason(answers):
    assert 'curvfed.methods: "fedavg" is a built-in name; brings:MINE is ignored' in answers
    assert 'curvfed.models: "gcn" is a built-in name' in answers
    assert 'curvfed.datasets: "Digits" is a built-in name' in answers
    first, *lines = lines_of(answers)[len(KEYS) :]
    assert first == "fedavg True {}"
    for (name, reason), line in zip(LEFT_OUT.items(), lines, strict=True):
        assert line.startswith(f'refused: method = "{name}" is left out: {reason}')


@pytest.mark.long
def test_what_is_not_installed_here(tmp_path):
    notes = python(
        ASK, tmp_path / "home", words=("method=mine", "my-way.kind=b", "dataset=mine", "model=mine")
    ).splitlines()
    named = ('method = "mine"', 'unknown key "my-way.kind"', 'dataset = "mine"', 'model = "mine"')
    for line, name in zip(notes, named, strict=True):
        assert line.startswith(f"refused: {name}")
        assert "must be installed wherever server and clients run" in line


def test_names_without_torch_and_flwr(tmp_path):
    package(tmp_path / "site", "brings", ROW, {"curvfed.methods": {"mine": "brings:MINE"}})
    program = (
        "import sys\nfrom curvfed.strategies.methods import METHODS\nfrom curvfed.tasks import"
        " plugins\nprint('mine' in METHODS, list(plugins.registered('models')), [one for one in"
        " ('torch', 'flwr') if one in sys.modules])"
    )
    assert python(program, tmp_path / "home", tmp_path / "site") == "True [] []\n"


def test_broken_commands_and_kinds_cost_nothing_else(tmp_path):
    groups = {
        "curvfed.commands": {"absent": "not_there:COMMAND", "text": "os:sep", "simulate": "os:sep"},
        "curvfed.tasks": {"odd": "brings:MINE", "gone": "not_there:KIND"},
    }
    package(tmp_path / "site", "brings", ROW, groups)
    program = (
        "import logging\nlogging.basicConfig(format='%(message)s')\n"
        "from curvfed.deployments.commands.command import main\n"
        "from curvfed.tasks.kinds import KINDS\n"
        "print(main(['--help']), {'odd', 'gone'} & set(KINDS), main(['absent', '--any', 'word']))"
    )
    out = python(program, tmp_path / "home", tmp_path / "site")
    assert "Cannot be used" in out
    assert "0 set() 2" in out.splitlines()
    assert "error: command absent:" in out
    assert 'curvfed.commands: "simulate" is a built-in name; os:sep is ignored' in out

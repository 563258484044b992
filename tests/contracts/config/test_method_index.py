"""Lists and keys of methods come from the index as long as a method's file is unchanged, and from
the file itself otherwise."""

import json
import sys

import pytest

from curvfed.strategies import methods
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError

FILE = """
from typing import ClassVar
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.method import Method

class Keys(Table):
    tempo: float = 3.0
    turns: int | None = None

METHODS = {"waltz": Method("a dance", space="flat", tasks=("nodes",), keys={"waltz": Keys})}
"""
HEIR = """
from index_waltz import waltz
from curvfed.strategies.base.method import Method

class Keys(waltz.Keys):
    dip: bool = False

METHODS = {"tango": Method("another", space="flat", tasks=("nodes",), keys={"tango": Keys})}
"""
WALTZ, TANGO = "index_waltz.waltz", "index_waltz.tango"


@pytest.fixture
def dances(tmp_path, monkeypatch):
    """A folder with two methods' files, and an index of them with other words and values than
    those of the files."""
    folder = tmp_path / "index_waltz"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "waltz.py").write_text(FILE)
    (folder / "tango.py").write_text(HEIR)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(methods, "files", lambda: {"waltz": WALTZ, "tango": TANGO})
    digests = {module: methods.digest(module) for module in (WALTZ, TANGO)}
    entries = {
        WALTZ: {
            "digests": {WALTZ: digests[WALTZ]},
            "methods": {"waltz": ["of the index", ["images"]]},
            "keys": {"waltz": {"tempo": 4.0}},
        },
        TANGO: {
            "digests": digests,
            "methods": {"tango": ["of the index", ["images"]]},
            "keys": {"tango": {"tempo": 4.0, "dip": True}},
        },
    }
    monkeypatch.setattr(methods, "index", lambda: {"modules": entries, "keys": {}})
    methods.description.cache_clear()
    yield folder
    methods.description.cache_clear()
    for module in (WALTZ, TANGO, "index_waltz"):
        sys.modules.pop(module, None)


def test_an_unchanged_file_is_not_imported(dances):
    assert methods.description("waltz")["methods"] == {"waltz": ["of the index", ["images"]]}
    assert methods.description("tango")["keys"] == {"tango": {"tempo": 4.0, "dip": True}}
    assert not {WALTZ, TANGO} & sys.modules.keys()


def test_a_changed_file_is_imported(dances):
    (dances / "waltz.py").write_text(FILE.replace("tempo: float = 3.0", "tempo: float = 2.5"))
    assert methods.description("waltz") == {
        "methods": {"waltz": ["a dance", ["nodes"]]},
        "keys": {"waltz": {"tempo": 2.5, "turns": "auto"}},
    }


def test_so_is_one_whose_keys_follow_from_a_changed_file(dances):
    (dances / "waltz.py").write_text(FILE.replace("turns", "rounds"))
    assert methods.description("tango") == {
        "methods": {"tango": ["another", ["nodes"]]},
        "keys": {"tango": {"tempo": 3.0, "rounds": "auto", "dip": False}},
    }


def test_a_new_file_is_imported(dances, monkeypatch):
    monkeypatch.setattr(methods, "index", lambda: {"modules": {}, "keys": {}})
    assert methods.description("waltz")["methods"] == {"waltz": ["a dance", ["nodes"]]}


@pytest.mark.parametrize("text", [None, "", "<<<<<<< ours\n", "[", b"\xff", "[]", "null", "{}"])
def test_a_damaged_index_is_none(text, tmp_path, monkeypatch):
    path = tmp_path / "index.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr(methods, "INDEX", str(path))
    methods.index.cache_clear()
    try:
        assert methods.index() == {"modules": {}, "keys": {}}
    finally:
        methods.index.cache_clear()


@pytest.mark.parametrize("text", ["METHODS = {", "import no_such_module", "WALTZES = {}"])
def test_a_file_that_cannot_be_imported_is_logged_and_stops_no_other_method(dances, text, caplog):
    (dances / "waltz.py").write_text(text)
    assert methods.description("waltz")["methods"] == {"waltz": ["of the index", ["images"]]}
    assert WALTZ in caplog.text
    with pytest.raises(DataError, match=WALTZ):
        methods.rows_of("waltz")


def test_without_an_entry_the_methods_of_such_a_file_are_missing(dances, monkeypatch):
    monkeypatch.setattr(methods, "index", lambda: {"modules": {}, "keys": {}})
    (dances / "waltz.py").write_text("METHODS = {")
    assert methods.description("waltz") == {"methods": {}, "keys": {}}


def test_a_vanished_module_is_a_changed_one(dances):
    (dances / "tango.py").write_text(FILE.replace("waltz", "tango"))
    (dances / "waltz.py").unlink()
    assert methods.digest(WALTZ) == ""
    assert methods.description("tango")["methods"] == {"tango": ["a dance", ["nodes"]]}


@pytest.mark.parametrize("entry", [{}, {"digests": {}}])
def test_an_incomplete_entry_is_none(dances, monkeypatch, entry):
    monkeypatch.setattr(methods, "index", lambda: {"modules": {WALTZ: entry}, "keys": {}})
    assert methods.description("waltz")["methods"] == {"waltz": ["a dance", ["nodes"]]}


def test_a_method_for_all_data_has_the_tasks_of_extensions_too(monkeypatch):
    monkeypatch.setattr(methods, "ALL", ("nodes", "pairs"))
    methods.listed.cache_clear()
    try:
        assert methods.listed()["local"].tasks == ("nodes", "pairs")
    finally:
        methods.listed.cache_clear()


@pytest.mark.parametrize("file", methods.files())
def test_a_description_is_that_of_the_imported_file(file):
    """The values and their types: 1 and 1.0 are not the same default."""
    described = methods.description(file)
    imported = methods.imported_description(file)
    for part, content in imported.items():
        assert json.dumps(described[part]) == json.dumps(content)


def test_a_default_of_a_deleted_extension_is_ignored_and_another_value_refused(monkeypatch):
    monkeypatch.setattr("curvfed.strategies.config.parse.indexed_defaults", lambda: {"gone.by": 1})
    assert "gone.by" not in defaults()
    assert parse({"gone.by": 1}) == parse({})
    for value in (2, 1.0, True):
        with pytest.raises(ConfigError, match=r'unknown key "gone\.by"'):
            parse({"gone.by": value})

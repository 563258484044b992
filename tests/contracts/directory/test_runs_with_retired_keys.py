"""A run of an earlier version, whose settings have keys that are constants since."""

import pytest
from app_runs import run
from stored import write_settings

import curvfed
from curvfed.strategies.config.parse import parse, read_settings
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import Facts, stored_facts


def with_line(path, table, line):
    """Write a key into the settings of a run, as an earlier version did."""
    file = path / "config.toml"
    lines = [
        text for text in file.read_text().splitlines(keepends=True) if not text.startswith("#")
    ]
    lines.insert(lines.index(f"[{table}]\n") + 1, line + "\n")
    write_settings(file, "".join(lines))


def test_it_is_opened_if_the_key_had_the_constant(tmp_path):
    path = run(tmp_path, method="flatland", num_rounds=1).path
    before = curvfed.load(path).config
    with_line(path, "flatland", "triangles = true")
    assert curvfed.load(path).config == before


def test_it_is_refused_by_the_name_of_the_key_if_the_run_did_something_else(tmp_path):
    path = run(tmp_path, method="flatland", num_rounds=1).path
    with_line(path, "flatland", "triangles = false")
    with pytest.raises(ConfigError, match=r"flatland\.triangles"):
        parse(read_settings(path / "config.toml", written_by_run=True))


def test_settings_of_users_do_not_have_them(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('method = "flatland"\n[flatland]\ntriangles = true\n')
    assert "flatland.triangles" in read_settings(file)


def test_no_key_is_retired_and_used():
    for name, row in METHODS.items():
        for keys in row.keys.values():
            used = {field.alias for field in keys.model_fields.values()}
            assert not used & dict(keys.retired).keys(), name


def test_figures_of_a_start_have_had_names_of_their_own():
    stored = {"task": "nodes", "num_features": 2, "class_names": ["a"]}
    named = stored | {"ricci_mean": -2.5, "ricci_std": 0.5}
    assert stored_facts(named) == Facts("nodes", 2, ("a",), figures=(-2.5, 0.5))
    assert stored_facts(stored | {"ricci_mean": 0.0, "ricci_std": 0.0}).figures == ()
    assert stored_facts(stored) == Facts("nodes", 2, ("a",))

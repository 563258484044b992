"""What a run has stored is of a numbered format. `format_1` is a run as versions left it that wrote no number yet."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from app_runs import rows, run
from report_page import Page
from safetensors import safe_open
from safetensors.numpy import load_file

import curvfed
from curvfed.deployments.pairs import read_pairs
from curvfed.deployments.sweep.plan import read_plan
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.tables import RENAMED, TABLES
from curvfed.server_app.report.page import write_report
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.settings_file import AUTO_IN_FORMAT_1, HEADING, read_settings
from curvfed.strategies.wire.array_file import packed
from curvfed.strategies.wire.store import Store, StoreError

STORED = Path(__file__).parent / "format_1"
BEGUN = {
    "method": "flatland",
    "dataset": "trees",
    "embedding_dim": 2,
    "optimizer": "adam",
    "optimizer_state": "personal",
    "schedule": "constant",
    "decay_every": 40,
}
"""The optimiser is what "auto" stood for."""


@pytest.fixture
def begun(tmp_path):
    """A run of two clients and one round."""
    return shutil.copytree(STORED, tmp_path / "begun")


def test_a_run_of_format_1_goes_on(begun, tmp_path):
    before = load_file(begun / "checkpoint" / "server" / "00000001.safetensors")
    made = run(tmp_path, "begun", clients=2, resume=True, num_rounds=2, **BEGUN)
    assert made.summary["status"] == "completed"
    assert [row["round"] for row in made.rounds if row["phase"] == "train"] == ["1", "2"]
    for name, array in made.model.items():
        if name in before:  # a step of Adam moves an entry by no more than about the learning rate, .01
            assert 0 < np.abs(array - before[name]).max() < 0.02


def test_scores_of_earlier_names_are_read_by_those_of_now(begun):
    told = rows(begun / "clients.csv")
    for earlier, name in RENAMED.items():
        values = [float(row[earlier]) for row in told]
        assert RunFiles.read(begun).by_client(name)[1].tolist() == [values]
        assert curvfed.load(begun).clients[name].tolist() == pytest.approx(values, rel=1e-15)  # pandas rounds
    page = Page(write_report(begun))
    for row in told:
        assert {f"{100 * float(row[name]):.2f}%" for name in ("test", "val")} <= set(page.rows[row["partition"]])


def test_a_run_with_earlier_names_goes_on_with_those_of_now(begun, tmp_path):
    told, whole = rows(begun / "clients.csv"), rows(begun / "rounds.csv")[0]
    made = run(
        tmp_path, "begun", clients=2, resume=True, num_rounds=1, **BEGUN
    )  # the figures are those of the checkpoint
    assert made.summary["personal_accuracy_mean"] == float(whole["score"])
    assert made.summary["metrics"]["personal_accuracy_before"] == float(whole["score_before"])
    assert made.summary["metrics"]["validation"] == float(whole["validation"])
    made = run(tmp_path, "begun", clients=2, resume=True, num_rounds=2, **BEGUN)
    assert tuple(made.clients[0]) == TABLES["clients.csv"]
    assert made.clients[:2] == [{RENAMED.get(name, name): cell for name, cell in row.items()} for row in told]
    assert all(row[name] for row in made.clients for name in RENAMED.values())


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"optimizer": "adamw"},
            "optimizer = 'adamw', but the run began with a version that chose otherwise: adam for",
        ),
        (
            {"optimizer_state": "kept"},
            "optimizer-state = 'kept', but the run began with a version that chose otherwise",
        ),
        ({"schedule": "inverse"}, "schedule = 'inverse', but the run began with 'constant'"),
    ],
)
def test_what_an_older_version_chose_must_be_named(keys, words, begun, tmp_path):
    before = {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=re.escape(words)):
        run(tmp_path, "begun", clients=2, resume=True, num_rounds=2, **BEGUN | keys)
    assert {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("method", ["adafgl", "gcfl", "moon"])
def test_a_run_of_a_method_that_has_changed_does_not_go_on(method, begun, tmp_path):
    config = begun / "config.toml"
    config.write_text(config.read_text().replace('method = "flatland"', f'method = "{method}"'))
    with pytest.raises(ConfigError, match=f"that computed {method} otherwise; allowed is a new run"):
        run(tmp_path, "begun", clients=2, resume=True, num_rounds=2, **BEGUN | {"method": method})


def test_what_is_written_now_has_the_number(tmp_path):
    made = run(tmp_path, clients=2, num_rounds=1, **BEGUN)
    assert (made.path / "config.toml").read_text().startswith("# format 5 of curvfed\n# xxh128:")
    files = list((made.path / "checkpoint").rglob("*.safetensors"))
    assert len(files) == 3
    for path in files:
        with safe_open(path, framework="np") as file:
            assert file.metadata()["format"] == "5"


def test_what_stood_for_auto_in_format_1_is_read_as_auto(begun, tmp_path):
    old = read_settings(begun / "config.toml")
    assert {key for key in AUTO_IN_FORMAT_1 if key in old} == {
        key for key, value in old.items() if key in AUTO_IN_FORMAT_1 and value == "auto"
    } | {"embedding-dim"}
    preset, sweep = tmp_path / "old.toml", tmp_path / "sweep.toml"
    preset.write_text(
        "learning-rate = 0\nembedding-dim = -1\nfine-tune-epochs = -1\n[hull]\nc = 0.0\n[flatland]\ngate = false\n"
    )
    read = {"learning-rate": "auto", "embedding-dim": 0, "fine-tune-epochs": "auto", "hull.c": "auto"}
    read |= {"flatland.gate": False, "flatland.self-weight": False}  # one key for nodes and for whole graphs
    assert read_pairs([str(preset)], defaults()) == read
    sweep.write_text('[settings]\nmethod = "fedavg"\nlearning-rate = [0, 0.5]\n')
    assert [one.settings["learning-rate"] for one in read_plan(sweep).runs] == ["auto", 0.5]
    for path in (preset, sweep):
        path.write_text(
            HEADING
            + path.read_text().replace(
                "embedding-dim = -1\nfine-tune-epochs = -1\n[hull]\nc = 0.0\n[flatland]\ngate = false\n", ""
            )
        )
    assert read_pairs([str(preset)], defaults()) == {"learning-rate": 0}
    assert [one.settings["learning-rate"] for one in read_plan(sweep).runs] == [0, 0.5]


def test_up_to_format_4_nodes_were_one_batch_whatever_the_batch_size(tmp_path):
    path = tmp_path / "config.toml"
    for number, read in ((2, "auto"), (4, "auto"), (5, 128)):
        path.write_text(f"# format {number} of curvfed\nbatch-size = 128\n")
        assert read_settings(path, of_run=True) == {"batch-size": read}
        assert read_settings(path) == {"batch-size": 128}  # a preset of images says what it wants
    path.write_text("# format 4 of curvfed\nbatch-size = 64\n")
    assert read_settings(path, of_run=True) == {"batch-size": 64}


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint16", "float16", "float32", "uint64"])
def test_every_dtype_of_the_format_comes_back(dtype, tmp_path):
    store, array = Store(tmp_path), np.arange(6).astype(dtype)
    store.save(1, {"a": array}, {})
    (found,) = store.load(1)[0].values()
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(load_file(tmp_path / "00000001.safetensors")["a"], array)


def test_another_dtype_is_refused_by_name(tmp_path):
    store = Store(tmp_path)
    store.save(1, {"a": np.zeros(2)}, {})
    with pytest.raises(StoreError, match='"phase" is complex128; allowed is one of bool, uint8'):
        store.save(2, {"phase": np.zeros(2, complex)}, {})
    assert store.stamps() == [1]


def test_a_later_format_is_refused_and_left_as_it_is(begun, tmp_path):
    later = packed({"a": np.zeros(2)}, {"json": "{}", "format": "6"})
    (tmp_path / "00000001.safetensors").write_bytes(b"".join(later))
    with pytest.raises(StoreError, match="it has format 6, written by another version of curvfed"):
        Store(tmp_path).load(1)
    config = begun / "config.toml"
    config.write_text(f"# format 6 of curvfed\n{config.read_text()}")
    with pytest.raises(ConfigError, match="it has format 6"):
        read_settings(config)
    before = config.read_bytes()
    with pytest.raises(ConfigError, match="it has format 6"):
        run(tmp_path, "begun", clients=2, resume=True, num_rounds=2, **BEGUN)
    assert config.read_bytes() == before

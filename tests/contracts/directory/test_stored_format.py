"""What a run has stored is of a numbered format; another is refused."""

import numpy as np
import pytest
from app_runs import run
from errors import refuses
from safetensors import safe_open
from safetensors.numpy import load_file

from curvfed.deployments.arguments import UsageError, read_pairs
from curvfed.strategies.config.parse import HEADING
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.store import Store, StoreError, file_parts
from curvfed.tasks.stored_files import FORMAT, UNSEALED, sealed

BEGUN = {
    "clients": 2,
    "num_rounds": 1,
    "method": "flatland",
    "dataset": "trees",
    "embedding_dim": 2,
}


def test_what_is_written_now_has_the_number(tmp_path):
    made = run(tmp_path, **BEGUN)
    assert (
        (made.path / "config.toml")
        .read_text()
        .startswith(f"# format {FORMAT} of curvfed\n# xxh128:")
    )
    files = list((made.path / "checkpoint").rglob("*.safetensors"))
    assert len(files) == 3
    for path in files:
        with safe_open(path, framework="np") as file:
            assert file.metadata()["format"] == str(FORMAT)


def test_settings_that_users_write_need_no_heading_and_may_have_none_of_another_format(tmp_path):
    path = tmp_path / "preset.toml"
    path.write_text("learning-rate = 0\n")
    assert read_pairs([str(path)], defaults()) == {"learning-rate": 0}
    path.write_text(HEADING + "learning-rate = 0\n")
    assert read_pairs([str(path)], defaults()) == {"learning-rate": 0}
    path.write_text("# format 4 of curvfed\nlearning-rate = 0\n")
    with pytest.raises(
        UsageError, match=r"preset.toml cannot be read: it has format 4, .* reads format \d+$"
    ):
        read_pairs([str(path)], defaults())


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int32", "uint16", "float16", "float32", "uint64"]
)
def test_every_dtype_of_the_format_comes_back(dtype, tmp_path):
    store, array = Store(tmp_path), np.arange(6).astype(dtype)
    store.save(1, {"a": array}, {})
    (result,) = store.load(1)[0].values()
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array)
    np.testing.assert_array_equal(load_file(tmp_path / "00000001.safetensors")["a"], array)


def test_another_dtype_is_refused_by_name(tmp_path):
    store = Store(tmp_path)
    store.save(1, {"a": np.zeros(2)}, {})
    with refuses("dtype", '"phase"', "complex128", "uint8", error=StoreError):
        store.save(2, {"phase": np.zeros(2, complex)}, {})
    assert store.stamps() == [1]


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_and_left_as_it_is(number, tmp_path):
    made = run(tmp_path, "begun", **BEGUN)
    state = made.path / "checkpoint" / "server" / "00000001.safetensors"
    state.write_bytes(
        b"".join(file_parts({"a": np.zeros(2)}, {"json": "{}", "format": str(number)}))
    )
    with refuses("format", f"format {number}", error=StoreError):
        Store(state.parent).load(1)
    config = made.path / "config.toml"
    _, text = config.read_text().split("\n# xxh128:", 1)
    unsealed = f"# format {number} of curvfed\n# {UNSEALED}\n{text.partition(chr(10))[2]}"
    config.write_bytes(sealed(unsealed.encode()))
    before = config.read_bytes()
    with pytest.raises(ConfigError, match=f"it has format {number}"):
        run(tmp_path, "begun", resume=True, **BEGUN)
    assert config.read_bytes() == before

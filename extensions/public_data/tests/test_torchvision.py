"""A torchvision that was built for another torch, as a CPU wheel of one beside a CUDA wheel of the
other."""

import sys
from importlib.metadata import version

import pytest

from curvfed.deployments.commands.command import main
from curvfed.extensions.public_data.image_readers import read_named
from curvfed.extensions.public_data.rows import IMAGE_SETS
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.images.nets import resnet18

REASON = "operator torchvision::nms does not exist"


@pytest.fixture
def misfit(tmp_path, monkeypatch):
    """A torchvision that fails as the real one does."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(f"raise RuntimeError({REASON!r})\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("misfit")
@pytest.mark.parametrize(
    "use",
    [
        lambda folder: read_named(IMAGE_SETS["mnist"], folder),
        lambda folder: resnet18((3, 32, 32), "group"),
    ],
    ids=["a data set", "a network"],
)
def test_the_error_names_both_versions_and_what_to_do(tmp_path, use):
    with pytest.raises(ImportError, match="install both from the same") as caught:
        use(tmp_path)
    for fact in (f"torch {version('torch')}", f"torchvision {version('torchvision')}", REASON):
        assert fact in str(caught.value)


@pytest.mark.usefixtures("misfit")
@pytest.mark.parametrize("command", ["check", "simulate", "run"])
@pytest.mark.parametrize("dataset", ["digits", "mnist"], ids=["built in", "absent"])
def test_a_model_that_cannot_be_made_is_refused_before_the_start(
    tmp_path, monkeypatch, capsys, command, dataset
):
    monkeypatch.setattr("curvfed.tasks.public_data.PROBE_URL", "http://127.0.0.1:9/")
    folders = [f"results-dir={tmp_path / 'results'}", f"data-dir={tmp_path / 'data'}"]
    assert main([command, "method=fedavg", f"dataset={dataset}", "model=resnet18", *folders]) == 2
    told = capsys.readouterr().err
    assert command != "check" or 'model = "resnet18": ' in told
    assert dataset != "digits" or REASON in told
    assert len(told.splitlines()) == 1 or "the download fails" in told
    assert not (tmp_path / "results").exists()


@pytest.mark.usefixtures("misfit")
def test_a_model_that_is_loaded_is_refused_in_words():
    facts = Facts("images", 0, ("a", "b"), "1x8x8")
    # one of the errors that predict and adapt expect
    with pytest.raises(ConfigError, match=REASON):
        build_model(
            model_spec(
                parse({"method": "fedavg", "dataset": "digits", "model": "resnet18"}), facts
            ),
            0,
        )

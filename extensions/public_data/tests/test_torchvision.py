"""A torchvision built for another torch, as a CPU wheel beside a CUDA wheel."""

import sys
from importlib.metadata import version

import pytest

from curvfed.deployments.commands.command import main
from curvfed.extensions.public_data.image_readers import read_named
from curvfed.extensions.public_data.rows import IMAGE_SETS
from curvfed.tasks.images.nets import NETS

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
        lambda folder: NETS["resnet18"]((3, 32, 32), "group"),
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
def test_a_model_that_cannot_be_made_is_refused_before_the_start(tmp_path, capsys, command):
    words = ["method=fedavg", "dataset=digits", "model=resnet18"]
    assert main([command, *words, f"results-dir={tmp_path / 'results'}"]) == 2
    assert REASON in capsys.readouterr().err
    assert not (tmp_path / "results").exists()

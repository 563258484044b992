"""A torchvision that was built for another torch, as a CPU wheel of one beside a CUDA wheel of the other."""

import sys
from importlib.metadata import version

import pytest
import torch

from curvfed.tasks.images.readers import read_named
from curvfed.tasks.images.resnets import resnet18
from curvfed.tasks.images.torchvision_modules import torchvision_module

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
    "use", [lambda folder: read_named("MNIST", folder), lambda folder: resnet18((3, 32, 32), "group")],
    ids=["a data set", "a network"],
)  # fmt: skip
def test_the_error_names_both_versions_and_what_to_do(tmp_path, use):
    with pytest.raises(ImportError, match="install both from the same") as caught:
        use(tmp_path)
    for fact in (f"torch {version('torch')}", f"torchvision {version('torchvision')}", REASON):
        assert fact in str(caught.value)


def test_a_module_that_fits():
    assert torchvision_module("ops").nms(torch.tensor([[0.0, 0, 1, 1]]), torch.ones(1), 0.5).tolist() == [0]

"""Names of encoders and keys beside them that are refused, before anything is made."""

import io
import shutil

import pytest
import torch
from errors import refuses
from torch import nn
from weights import SIZE, write_weights

import curvfed
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.images import encoder
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.encoder import encoded, find_encoder, network_of

PUBLISHED = "resnet18-f37072fd"


@pytest.fixture(autouse=True)
def weights_folder(own_home, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(own_home / "torch"))
    network_of.cache_clear()
    return home() / "encoders"


def test_missing_weights_name_folders_and_download(weights_folder, own_home):
    hub = own_home / "torch" / "hub" / "checkpoints"
    advice = 'get_model("resnet18", weights="IMAGENET1K_V1")'
    with refuses("no-weights", PUBLISHED, weights_folder, hub, advice) as caught:
        find_encoder(PUBLISHED)
    # A node sends no folder of its own.
    assert {str(weights_folder), str(hub)} <= set(caught.value.names)
    with refuses("no-weights", f"torchvision publishes {PUBLISHED}"):
        find_encoder("resnet18-00000000")


def test_missing_weights_end_a_run_before_its_folder(tmp_path):
    with refuses("data", PUBLISHED, error=ConfigError) as caught:
        curvfed.simulate(
            "fedavg",
            dataset="digits",
            num_supernodes=2,
            quiet=True,
            results_dir=tmp_path / "results",
            **{"images.encoder": PUBLISHED},
        )
    assert str(caught.value).startswith('images.encoder = "resnet18-')
    assert not (tmp_path / "results").exists()


def test_the_folder_of_torchs_downloads_is_searched(own_home):
    folder = own_home / "torch" / "hub" / "checkpoints"
    name = write_weights(folder)
    assert find_encoder(name).place == str(folder / f"{name}.pth")


def test_weights_with_another_hash(weights_folder):
    name = write_weights(weights_folder)
    other = "resnet18-00000000"
    shutil.copy(weights_folder / f"{name}.pth", weights_folder / f"{other}.pth")
    with refuses("other-weights", name.rpartition("-")[2], "00000000") as caught:
        network_of(find_encoder(other))
    assert str(caught.value).startswith(f'images.encoder = "{other}": ')


def test_weights_of_another_architecture(weights_folder):
    name = write_weights(weights_folder)
    digits = name.rpartition("-")[2]
    renamed = f"resnet34-{digits}"
    (weights_folder / f"{name}.pth").rename(weights_folder / f"{renamed}.pth")
    with refuses("other-weights", "resnet34"):
        network_of(find_encoder(renamed))


class Attack:
    """An object whose reading would run code."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_a_file_of_weights_runs_no_code(weights_folder, monkeypatch):
    import hashlib

    buffer = io.BytesIO()
    torch.save({"fc.weight": Attack()}, buffer)
    digits = hashlib.sha256(buffer.getvalue()).hexdigest()[:8]
    weights_folder.mkdir(parents=True)
    (weights_folder / f"resnet18-{digits}.pth").write_bytes(buffer.getvalue())
    with refuses("other-weights", "resnet18"):
        network_of(find_encoder(f"resnet18-{digits}"))


@pytest.mark.parametrize("name", ["resnet19-f37072fd", "retinanet-f37072fd", "nothing-00000000"])
def test_unknown_architectures(name):
    with refuses("no-encoder", name, "not a classifier of torchvision"):
        find_encoder(name)


@pytest.mark.parametrize("name", ["resnet18", "resnet18-f37072f", "resnet18-F37072FD", "vgg"])
def test_names_of_another_form(name):
    with refuses("no-encoder", name, PUBLISHED):
        find_encoder(name)


@pytest.mark.parametrize(
    "name", ["../resnet18-f37072fd", "/etc/passwd", "a/b", "~/x", "a\x00b", "..", "a b", "x" * 200]
)
def test_a_path_is_no_name(name):
    with pytest.raises(ConfigError, match=r"images\.encoder"):
        parse({"images.encoder": name})


def test_a_network_without_a_last_linear_layer(weights_folder):
    name = write_weights(weights_folder, "squeezenet1_0")
    with refuses("no-encoder", "squeezenet1_0", "linear"):
        network_of(find_encoder(name))


def test_a_size_that_the_network_does_not_take(weights_folder, monkeypatch):
    name = write_weights(weights_folder)
    monkeypatch.setattr(encoder, "network_of", lambda _: nn.Conv2d(3, 4, kernel_size=33))
    with refuses("encoder-size", name, "32x32", "224"):
        encoded(name, 1, lambda start, end: torch.zeros(1, 1, 32, 32, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"model": "cnn"}, ["model", "images.encoder"]),
        ({"images.augment": "crop-flip"}, ["images.augment", "images.encoder"]),
        ({"method": "fedbabu", "embedding-dim": 0}, ["embedding-dim", "num-rounds = 0"]),
    ],
)
def test_keys_that_contradict_an_encoder(keys, named):
    base = {"method": "fedavg", "dataset": "digits", "images.encoder": PUBLISHED}
    with pytest.raises(ConfigError) as caught:
        parse(base | keys)
    for text in named:
        assert text in str(caught.value)


def test_the_last_network_is_kept(weights_folder, tmp_path):
    name = write_weights(weights_folder)
    spec = ImageSpec("digits", tmp_path, train_subset=20, size=SIZE, encoder=name)
    ImageDataset(spec).client(0, 2)
    network = network_of(find_encoder(name))
    assert not any(parameter.requires_grad for parameter in network.parameters())
    assert not network.training
    assert not any(isinstance(layer, nn.Dropout) and layer.training for layer in network.modules())

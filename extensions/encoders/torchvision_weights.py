"""Classifiers of torchvision without their last layer, by the published name of a file of weights,
which holds the first digits of the file's SHA-256."""

import hashlib
import io
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from curvfed.strategies.base.run_keys import home
from curvfed.tasks.draws import seeded
from curvfed.tasks.errors import EncoderError, did_you_mean
from curvfed.tasks.images.encoder import Encoder
from curvfed.tasks.images.nets import torchvision_module

NAME = re.compile(r"([a-z0-9_]+(?:-[a-z]+)?)-([0-9a-f]{8,64})")
"""Architecture, which more words may follow, as in efficientnet_b0_rwightman, and at least eight
digits of the SHA-256 of the file."""

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""Of the pixels of ImageNet, scaled to [0, 1], by channel."""


class FrozenClassifier(nn.Module):
    """A classifier of torchvision without its last linear layer, after ImageNet's normalisation.

    Parameters
    ----------
    net : Module
        From normalised images (n, 3, h, w), float32, to features (n, d).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None])
        self.register_buffer("std", torch.tensor(STD)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Features (n, d) of images (n, 3, h, w), uint8."""
        features: Tensor = self.net((images.float() / 255 - self.mean) / self.std)
        return features


def encoder(name: str) -> Encoder | None:
    """The encoder of a name such as "resnet18-f37072fd"; None for a name of another form.

    Raises
    ------
    EncoderError
        If torchvision lacks the architecture, or the file is in none of the folders.
    """
    parts = NAME.fullmatch(name)
    if parts is None:
        return None
    words, digits = parts.groups()
    models = torchvision_module("models")
    architectures = models.list_models(module=models)
    fitting = [known for known in architectures if re.match(f"{known}([_-]|$)", words)]
    if not fitting:
        listed = "torchvision.models.list_models(module=torchvision.models)"
        raise EncoderError(
            f'images.encoder = "{name}": {words} is not a classifier of torchvision'
            f"{did_you_mean(words, architectures, listed)}",
            key="no-encoder",
        )
    architecture = max(fitting, key=len)
    path = _file(models, name, architecture)
    return Encoder(name, str(path), partial(_load, path, architecture, digits))


def folders() -> Sequence[Path]:
    """The folders of weights: the user's own, and that of torch's downloads."""
    return home() / "encoders", Path(torch.hub.get_dir()) / "checkpoints"


def _file(models: Any, name: str, architecture: str) -> Path:
    for folder in folders():
        path = folder / f"{name}.pth"
        if path.is_file():
            return path
    places = [str(folder) for folder in folders()]
    published = {
        Path(weights.url).stem: weights.name for weights in models.get_model_weights(architecture)
    }
    if name in published:
        advice = (
            "on a machine with a network this downloads it:\npython -c 'from torchvision.models"
            f' import get_model; get_model("{architecture}", weights="{published[name]}")\''
        )
    else:
        advice = f"torchvision publishes {' and '.join(published)} of this architecture"
    raise EncoderError(
        f'images.encoder = "{name}": no file {name}.pth in {" or ".join(places)}; {advice}',
        *places,
        key="no-weights",
    )


def _load(path: Path, architecture: str, digits: str) -> nn.Module:
    """The network with the weights of a file, if its SHA-256 begins with these digits."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if not digest.startswith(digits):
        raise EncoderError(
            f'images.encoder = "{path.stem}": the SHA-256 of {path} begins with'
            f" {digest[: len(digits)]}, not with {digits}; the file is damaged or holds other"
            " weights. Remove it, and download it anew",
            str(path.parent),
            key="other-weights",
        )
    models = torchvision_module("models")
    with seeded(0):  # the initial weights are drawn, and replaced
        net = models.get_model(architecture, weights=None)
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        net.load_state_dict(state)
    except Exception as error:  # of torch.load many
        reason = str(error).strip().partition("\n")[0]
        raise EncoderError(
            f'images.encoder = "{path.stem}": {path} has not the weights of {architecture}'
            f" ({type(error).__name__}: {reason}); allowed is a file as torchvision publishes it",
            str(path.parent),
            key="other-weights",
        ) from error
    linear = [key for key, layer in net.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise EncoderError(
            f'images.encoder = "{path.stem}": {architecture} has no last linear layer; allowed is a'
            " network that has one, such as resnet18",
            str(path.parent),
            key="no-encoder",
        )
    net.set_submodule(linear[-1], nn.Identity())
    return FrozenClassifier(net)

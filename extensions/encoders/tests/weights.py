"""Weights of a small frozen network, under the name that their hash gives them."""

import functools
import hashlib
import io
from pathlib import Path

import torch
from torchvision.models import get_model

SIZE = 32
"""Height and width of the images in the tests, for speed."""


@functools.lru_cache(maxsize=1)
def _weights(architecture: str, seed: int) -> bytes:
    """The content of a file of random weights."""
    torch.manual_seed(seed)
    buffer = io.BytesIO()
    torch.save(get_model(architecture, weights=None).state_dict(), buffer)
    return buffer.getvalue()


def write_weights(folder: Path, architecture: str = "resnet18", seed: int = 0) -> str:
    """Write random weights into a folder, and return their name."""
    content = _weights(architecture, seed)
    name = f"{architecture}-{hashlib.sha256(content).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.pth").write_bytes(content)
    return name

"""What one client holds: its images, the split, how pixels are normalised, and a hash of it all."""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

TENSORS = ("images", "labels", "train", "val", "test")


@dataclass(frozen=True, eq=False)
class ClientImages:
    """The data of one client, or the global test set.

    Attributes
    ----------
    images : Tensor, (n, c, h, w), uint8
        n may be 0.
    labels : Tensor, (n,), int64
        Indices into `class_names`.
    train, val, test : Tensor, (n,), bool
        Disjoint.
    class_names : tuple of str
        The names known to this client's data set.
    mean, std : tuple of float
        For each channel, of pixels scaled to [0, 1]: fixed by the data set and never measured, so that they are the same
        for all clients and the server.
    augments : bool
        Whether the data set is one whose training images are usually cropped and flipped.
    digest : str
        SHA-256 of all of the above.
    partition_digest : str
        SHA-256 of the membership of the whole partition; "" for a node's own data and for the global test set.
    """

    images: Tensor
    labels: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augments: bool
    digest: str
    partition_digest: str

    metric = "accuracy"
    space = ""
    task = "images"

    @property
    def shape(self) -> str:
        """Of one image: channels x height x width, as in "1x28x28"."""
        return "x".join(map(str, self.images.shape[1:]))

    @property
    def num_features(self) -> int:
        """Values of one image."""
        return math.prod(self.images.shape[1:])


def client_images(
    images: Tensor,
    labels: Tensor,
    masks: Tensor,
    class_names: tuple[str, ...],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    augments: bool,
    partition_digest: str = "",
) -> ClientImages:
    """A client's data, hashed.

    Parameters
    ----------
    images, labels, class_names, augments, partition_digest
        As in `ClientImages`.
    masks : Tensor, (3, n), bool
        Train, validation, test.
    mean, std : tuple of float
        Of a data set's channels; where the images have another number of these, each gets the mean over them.
    """
    train, val, test = (mask.clone() for mask in masks)
    tensors = {"images": images, "labels": labels, "train": train, "val": val, "test": test}
    fixed: dict[str, Any] = {
        "class_names": class_names,
        "mean": _per_channel(mean, images.shape[1]),
        "std": _per_channel(std, images.shape[1]),
        "augments": augments,
    }
    return ClientImages(**tensors, **fixed, digest=_digest(tensors, _text(fixed)), partition_digest=partition_digest)


def pack(client: ClientImages) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The client as named tensors and named strings, the two things a safetensors file holds."""
    fixed = {name: getattr(client, name) for name in ("class_names", "mean", "std", "augments")}
    metadata = {"fixed": _text(fixed), "digest": client.digest, "partition_digest": client.partition_digest}
    return {name: getattr(client, name).contiguous() for name in TENSORS}, metadata


def unpack(tensors: dict[str, Tensor], metadata: dict[str, str]) -> ClientImages:
    """The inverse of `pack`.

    Raises
    ------
    KeyError, ValueError
        Where something is absent, or where the contents differ from their digest.
    """
    if _digest(tensors, metadata["fixed"]) != metadata["digest"]:
        raise ValueError("the contents differ from their digest")
    fixed = json.loads(metadata["fixed"])
    return ClientImages(
        **{name: tensors[name] for name in TENSORS},
        class_names=tuple(fixed["class_names"]),
        mean=tuple(fixed["mean"]),
        std=tuple(fixed["std"]),
        augments=fixed["augments"],
        digest=metadata["digest"],
        partition_digest=metadata["partition_digest"],
    )


def _per_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values if len(values) == channels else (sum(values) / len(values),) * channels


def _text(fixed: dict[str, object]) -> str:
    return json.dumps(fixed, sort_keys=True)


def _digest(tensors: dict[str, Tensor], fixed: str) -> str:
    hasher = hashlib.sha256(fixed.encode())
    for name, tensor in sorted(tensors.items()):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hasher.update(tensor.contiguous().numpy().data)
    return hasher.hexdigest()

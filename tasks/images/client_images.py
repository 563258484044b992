"""The images of one client, or of the global test set."""

import json
import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples, sha256


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientImages(Examples):
    """The images of one client, or a global test set.

    Attributes
    ----------
    images : Tensor, (n, c, h, w), uint8, or (n, d, 1, 1), float32
        Pixels, or features of a frozen network; n may be 0.
    mean, std : tuple of float
        Per channel, of pixels scaled to [0, 1]: constants of the data set, equal for all clients
        and the server; () for features.
    augments : bool
        Whether training images of this data set are usually cropped and flipped.
    bits : int
        The bits of white in the files with 16 bits per channel; 0 without such files.
    names : tuple of str, (n,)
        The path of each image from the folder of the data; () for images that are no files.
    """

    images: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augments: bool
    bits: int = 0
    names: tuple[str, ...] = ()

    task = "images"

    @property
    def shape(self) -> str:
        """The shape of an image, channels x height x width, as in "1x28x28"."""
        return "x".join(map(str, self.images.shape[1:]))

    @property
    def has_pixels(self) -> bool:
        """Whether the images are pixels, not features of a frozen network."""
        return self.images.dtype == torch.uint8

    @property
    def num_blank(self) -> int:
        """The number of images with a single value, which show nothing."""
        if not self.has_pixels:
            return 0
        values = self.images.flatten(start_dim=2)
        return int((values == values[..., :1]).all(dim=2).all(dim=1).sum())

    @property
    def num_features(self) -> int:
        """Values of one image."""
        return math.prod(self.images.shape[1:])

    def describe(self) -> str:
        """The amount of data, in words."""
        images = amount(len(self.labels), "image")
        if not self.has_pixels:
            return f"{images} as {amount(self.num_features, 'feature')} of a frozen network"
        return f"{images} of {self.shape} (channels x height x width)"

    def bytes_on(self, device: torch.device) -> int:
        """Bytes of the images on a device; in main memory they are a view of these data."""
        return 0 if device.type == "cpu" else self.images.nbytes

    def check_test(self, shape: str, class_names: Collection[str]) -> None:
        """Refuse test images of a shape or class that differs from those of a run.

        Raises
        ------
        DataError
        """
        unknown = set(self.class_names) - set(class_names)
        if self.shape != shape or unknown:
            problem = f"of classes {sorted(unknown)[:5]}"
            if self.shape != shape:
                problem = f"of shape {self.shape}"
            raise DataError(
                f"there are test images {problem}; allowed are images of shape {shape} and the"
                f" {len(class_names)} classes of the clients",
                key="test-images",
            )

    def computed_digest(self) -> str:
        """SHA-256 of the tensors, the class names and the normalisation."""
        constants = {
            "class_names": self.class_names,
            "mean": self.mean,
            "std": self.std,
            "augments": self.augments,
        }
        return sha256(json.dumps(constants, sort_keys=True), self.tensors())


def client_images(
    images: Tensor,
    labels: Tensor,
    masks: Tensor,
    class_names: tuple[str, ...],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    augments: bool,
    partition_digest: str = "",
    bits: int = 0,
    names: tuple[str, ...] = (),
) -> ClientImages:
    """A client's data, with their digest.

    Parameters
    ----------
    images, labels, class_names, augments, partition_digest, bits, names
        As in `ClientImages`.
    masks : Tensor, (3, n), bool
        Train, validation, test.
    mean, std : tuple of float
        Per channel of the data set. If the images have another number of channels, each channel
        gets their mean; features have neither.
    """
    has_pixels = images.dtype == torch.uint8
    return ClientImages.split(
        masks,
        images=images,
        labels=labels,
        class_names=class_names,
        mean=_per_channel(mean, images.shape[1]) if has_pixels else (),
        std=_per_channel(std, images.shape[1]) if has_pixels else (),
        augments=augments and has_pixels,
        partition_digest=partition_digest,
        bits=bits,
        names=names,
    )


def _per_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    if len(values) == channels:
        return values
    return (sum(values) / len(values),) * channels

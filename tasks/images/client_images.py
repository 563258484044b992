"""The images of one client, and how their pixels are normalised."""

import json
import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.examples import Examples, sha256


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientImages(Examples):
    """The images of one client, or a global test set.

    Attributes
    ----------
    images : Tensor, (n, c, h, w), uint8
        n may be 0.
    mean, std : tuple of float
        For each channel, of pixels scaled to [0, 1]: constants of the data set, the same for all
        clients and the server.
    augments : bool
        Whether training images of this data set are usually cropped and flipped.
    """

    images: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augments: bool

    task = "images"

    @property
    def shape(self) -> str:
        """The shape of an image, channels x height x width, as in "1x28x28"."""
        return "x".join(map(str, self.images.shape[1:]))

    @property
    def num_blank(self) -> int:
        """How many images have one value throughout: nothing is to be seen on them."""
        values = self.images.flatten(start_dim=2)
        return int((values == values[..., :1]).all(dim=2).all(dim=1).sum())

    @property
    def num_features(self) -> int:
        """Values of one image."""
        return math.prod(self.images.shape[1:])

    def computed_digest(self) -> str:
        """SHA-256 of the tensors, the class names and the normalisation."""
        fixed = {name: getattr(self, name) for name in ("class_names", "mean", "std", "augments")}
        return sha256(json.dumps(fixed, sort_keys=True), self.tensors())


def check_test(test: ClientImages, shape: str, class_names: Collection[str]) -> None:
    """Refuse test images whose shape or classes are not those of a run.

    Raises
    ------
    DataError
    """
    unknown = set(test.class_names) - set(class_names)
    if test.shape != shape or unknown:
        what = (
            f"images of {test.shape}" if test.shape != shape else f"classes {sorted(unknown)[:5]}"
        )
        raise DataError(
            f"there are test images {what}; allowed are images of {shape} and the"
            f" {len(class_names)} classes of the clients"
        )


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
    """A client's data, with their digest.

    Parameters
    ----------
    images, labels, class_names, augments, partition_digest
        As in `ClientImages`.
    masks : Tensor, (3, n), bool
        Train, validation, test.
    mean, std : tuple of float
        Of the data set's channels. Where the images have another number of channels, each gets the
        mean of these.
    """
    train, val, test = (mask.clone() for mask in masks)
    made = ClientImages(
        images=images,
        labels=labels,
        train=train,
        val=val,
        test=test,
        class_names=class_names,
        mean=_per_channel(mean, images.shape[1]),
        std=_per_channel(std, images.shape[1]),
        augments=augments,
        partition_digest=partition_digest,
    )
    return replace(made, digest=made.computed_digest())


def _per_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values if len(values) == channels else (sum(values) / len(values),) * channels

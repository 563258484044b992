"""The task of image data: batches of a client's images, the local loss, and what a model makes of
the test images."""

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.augment import crop_and_flip
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.images.objectives import Objective, cross_entropy
from curvfed.tasks.metrics import predictions
from curvfed.tasks.task import Batch, Task

EVALUATION_BATCH = 512


class ImageTask(Task):
    """One client's images on its device, as bytes: a batch is converted when it is needed.

    Parameters
    ----------
    images : ClientImages
        Of any number, also none.
    class_names, device
        As in `Task`.
    batch_size : int
        0 takes all images at once. The last batch of a pass takes the remaining images.
    objective : callable
        The local loss of a batch (`curvfed.tasks.images.objectives`).
    augment : bool
        Whether training images are cropped and flipped at random.
    mixed_precision : bool
        Whether the model's body is trained in bfloat16 where it may be.
    has_batch_norm : bool
        Whether the model has batch normalisation, which cannot train on a batch of one image: a
        last batch of one joins the batch before it, and where all batches are of one image the
        layers normalise by their running statistics.
    """

    def __init__(
        self,
        images: ClientImages,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int = 0,
        objective: Objective = cross_entropy,
        augment: bool = False,
        mixed_precision: bool = False,
        has_batch_norm: bool = False,
    ) -> None:
        super().__init__(images, class_names, device)
        self._num_classes = len(class_names)
        self._bytes = images.images.to(device)
        self._mean, self._std = (
            255 * torch.tensor(values, device=device)[:, None, None]
            for values in (images.mean, images.std)
        )
        # A convolution on a GPU's matrix units wants the channels of a pixel side by side.
        self._layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        self._objective = objective
        self._augment = augment
        self._mixed_precision = mixed_precision
        self._sizes = _batch_sizes(self.num_examples, batch_size, merges_one=has_batch_norm)
        self._keeps_norms = has_batch_norm and 1 in self._sizes

    @property
    def num_steps(self) -> int:
        """The number of batches."""
        return len(self._sizes)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each image once."""
        net = cast(ImageNet, model)
        net.mixed_precision = self._mixed_precision
        if self._keeps_norms:
            for layer in net.modules():
                if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                    layer.eval()
        train = self.parts["train"]
        for chosen in train[torch.randperm(len(train), device=train.device)].split(self._sizes):
            yield Batch(self._batch(chosen, self._augment), self.labels[chosen])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The local objective of a batch."""
        return self._objective(cast(ImageNet, model), batch.inputs, batch.labels)

    def _batch(self, chosen: Tensor, augment: bool = False) -> Tensor:
        """Images (b, c, h, w), float32, of mean 0 and variance 1 over the data set."""
        pixels = self._bytes.index_select(0, chosen)
        if augment:
            pixels = crop_and_flip(pixels)
        return pixels.to(torch.float32, memory_format=self._layout).sub_(self._mean).div_(self._std)

    def features(self, model: nn.Module, part: str = "train") -> Iterator[tuple[Tensor, Tensor]]:
        """Features (b, d), float32, and labels (b,) of a part's images in batches, in evaluation
        mode."""
        model.eval()
        for chosen in self.parts[part].split(EVALUATION_BATCH):
            if len(chosen):  # torch splits an empty tensor into one empty chunk
                # Not inference mode: no head could be trained on its tensors.
                with torch.no_grad():
                    features = cast(ImageNet, model).features(self._batch(chosen))
                yield features, self.labels[chosen]

    def logits(self, model: nn.Module, part: str) -> Tensor:
        """Logits (n, C) of the "train", "val" or "test" images, in evaluation mode and float32."""
        with torch.no_grad():
            found = [
                cast(ImageNet, model).head(features) for features, _ in self.features(model, part)
            ]
        return (
            torch.cat(found)
            if found
            else torch.zeros(0, self._num_classes, device=self.labels.device)
        )

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" and of the "test" images."""
        return {name: self.logits(model, name) for name in ("val", "test")}


class Predictions(NamedTuple):
    """The predictions of a model for n images, on the CPU.

    Attributes
    ----------
    labels, predicted : Tensor, (n,), int64
        `predicted` is −1, which is never a label, where a logit is not finite.
    features : Tensor, (n, d), float32
    """

    labels: Tensor
    predicted: Tensor
    features: Tensor


def evaluate(
    model: ImageNet, images: ClientImages, class_names: tuple[str, ...], device: torch.device
) -> Predictions:
    """The predictions of a model on `device` for the test images.

    Raises
    ------
    DataError
        If a class is not among `class_names`, or there are no test images.
    """
    task = ImageTask(images, class_names, device)
    with torch.no_grad():
        batches = [
            (labels, predictions(model.head(features)), features)
            for features, labels in task.features(model, "test")
        ]
    if not batches:
        raise DataError("there are no test images to evaluate a model on")
    return Predictions(*(torch.cat(column).cpu() for column in zip(*batches, strict=True)))


def _batch_sizes(num: int, size: int, merges_one: bool) -> list[int]:
    """Full batches, and one of the remaining images."""
    size = size or num
    sizes = [min(size, num - first) for first in range(0, num, size or 1)]
    if merges_one and len(sizes) > 1 and sizes[-1] == 1 and size > 1:
        sizes[-2:] = [size + 1]
    return sizes

"""What a client does with its images: describe them, give the losses of a pass, score a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from curvfed.tasks.errors import DataError
from curvfed.tasks.images.augment import crop_and_flip
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.images.objectives import Objective
from curvfed.tasks.metrics import score
from curvfed.tasks.task import Batch, Task

EVALUATION_BATCH = 512


@dataclass(frozen=True)
class ImageStatistics:
    """Figures about one client's images, which a real node keeps to itself unless told otherwise.

    Attributes
    ----------
    num_train, num_val, num_test : int
    class_counts : tuple of int
        Over all images, in the order of the client's own class names.
    majority_accuracy : float or None
        Test accuracy of always answering the most frequent training class; None without training or test images.
    """

    num_train: int
    num_val: int
    num_test: int
    class_counts: tuple[int, ...]
    majority_accuracy: float | None


def statistics(images: ClientImages) -> ImageStatistics:
    """Measure one client's images."""
    test_labels, train_labels = images.labels[images.test], images.labels[images.train]
    majority = None
    if len(test_labels) and len(train_labels):
        # bincount and argmax break ties by the smaller index, so the figure is the same everywhere.
        majority = float((test_labels == torch.bincount(train_labels).argmax()).double().mean())
    return ImageStatistics(
        num_train=len(train_labels),
        num_val=int(images.val.sum()),
        num_test=len(test_labels),
        class_counts=tuple(torch.bincount(images.labels, minlength=len(images.class_names)).tolist()),
        majority_accuracy=majority,
    )


class _Images:
    """Images as bytes on their device, whatever of them is wanted as numbers, and labels in the federation's numbering."""

    def __init__(self, images: ClientImages, class_names: tuple[str, ...], device: torch.device) -> None:
        unknown = set(images.class_names) - set(class_names)
        if unknown:
            raise DataError(f"classes {sorted(unknown)} are not among the federation's {list(class_names)}")
        numbers = torch.tensor([class_names.index(name) for name in images.class_names], dtype=torch.int64)
        self.labels = numbers[images.labels].to(device)
        self.parts = {name: getattr(images, name).nonzero().squeeze(1).to(device) for name in ("train", "val", "test")}
        self.num_classes = len(class_names)
        self._bytes = images.images.to(device)
        self._mean, self._std = (
            255 * torch.tensor(values, device=device)[:, None, None] for values in (images.mean, images.std)
        )
        # A convolution on a GPU's matrix units wants the channels of a pixel side by side.
        self._layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format

    def batch(self, chosen: Tensor, augment: bool = False) -> Tensor:
        """Images (b, c, h, w), float32, of mean 0 and variance 1 over the data set."""
        pixels = self._bytes.index_select(0, chosen)
        if augment:
            pixels = crop_and_flip(pixels)
        values: Tensor = pixels.to(torch.float32, memory_format=self._layout)
        return values.sub_(self._mean).div_(self._std)

    def features(self, model: ImageNet, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Features (b, d) and labels (b,) in evaluation mode, in the order of the images."""
        model.eval()
        for chosen in self.parts[part].split(EVALUATION_BATCH):
            if len(chosen):  # no images at all are still one chunk
                # Not inference mode, whose tensors a head could not be trained on.
                with torch.no_grad():
                    features = model.features(self.batch(chosen))
                yield features, self.labels[chosen]

    def logits(self, model: ImageNet, part: str) -> Tensor:
        """Logits (n, C) in evaluation mode."""
        with torch.no_grad():
            found = [model.head(features) for features, _ in self.features(model, part)]
        return torch.cat(found) if found else torch.zeros(0, self.num_classes, device=self.labels.device)


class ImageTask(Task):
    """One client's images on its device, with labels in the federation's numbering.

    Parameters
    ----------
    images : ClientImages
        Of any number, also none.
    class_names : tuple of str
        The classes of the federation, which number the labels and the logits.
    device : torch.device
    batch_size : int
        0 takes all images at once. The last batch of a pass is what remains.
    objective : callable
        The local loss of a batch (`curvfed.tasks.images.objectives`).
    augment : bool
        Whether training images are cropped and flipped at random.
    mixed_precision : bool
        Whether the model's body is trained in bfloat16 where it may.
    has_batch_norm : bool
        Whether the model has batch normalisation, for which one image is no batch: a last batch of one joins the one
        before, and where all batches are of one image the layers normalise by their running statistics.

    Raises
    ------
    DataError
        If the client has a class that the federation does not know.
    """

    def __init__(
        self,
        images: ClientImages,
        class_names: tuple[str, ...],
        device: torch.device,
        batch_size: int,
        objective: Objective,
        augment: bool = False,
        mixed_precision: bool = False,
        has_batch_norm: bool = False,
    ) -> None:
        self._images = _Images(images, class_names, device)
        self._objective, self._augment, self._mixed_precision = objective, augment, mixed_precision
        self.metric = images.metric
        self.train_labels = self._images.labels[self._images.parts["train"]]
        self.num_examples = len(self.train_labels)
        self._sizes = _batch_sizes(self.num_examples, batch_size, merges_one=has_batch_norm)
        self._keeps_norms = has_batch_norm and 1 in self._sizes

    @property
    def num_steps(self) -> int:
        """As many as there are batches."""
        return len(self._sizes)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each image once."""
        net = cast(ImageNet, model)
        net.mixed_precision = self._mixed_precision
        if self._keeps_norms:
            for layer in net.modules():
                if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                    layer.eval()
        train = self._images.parts["train"]
        shuffled = train[torch.randperm(len(train), device=train.device)]
        for chosen in shuffled.split(self._sizes):
            yield Batch(self._images.batch(chosen, self._augment), self._images.labels[chosen])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The local objective's."""
        return self._objective(cast(ImageNet, model), batch.inputs, batch.labels)

    def scores(self, model: nn.Module) -> dict[str, float]:
        """Accuracy on the validation and the test images, dropout off; what has no images is left out."""
        labels = {name: self._images.labels[self._images.parts[name]] for name in ("val", "test")}
        found = {name: score(self.metric, self.logits(model, name), labels[name]) for name in labels}
        return {name: value for name, value in found.items() if value is not None}

    def logits(self, model: nn.Module, part: str) -> Tensor:
        """Logits (n, C) of the "train", "val" or "test" images, in evaluation mode and float32."""
        return self._images.logits(cast(ImageNet, model), part)

    def features(self, model: nn.Module, part: str = "train") -> Iterator[tuple[Tensor, Tensor]]:
        """Features (b, d), float32, and labels (b,) of a part's images in batches, in evaluation mode."""
        return self._images.features(cast(ImageNet, model), part)


class Predictions(NamedTuple):
    """What a model makes of n images, on the CPU.

    Attributes
    ----------
    labels, predicted : Tensor, (n,), int64
        `predicted` is −1, which is never right, where a logit is not finite.
    features : Tensor, (n, d), float32
    """

    labels: Tensor
    predicted: Tensor
    features: Tensor


def evaluate(model: ImageNet, images: ClientImages, class_names: tuple[str, ...], device: torch.device) -> Predictions:
    """What a model on `device` makes of the test images.

    Raises
    ------
    DataError
        If there is a class that the federation does not know, or there are no test images.
    """
    found = _Images(images, class_names, device)
    batches = [(labels, _predict(model, features), features) for features, labels in found.features(model, "test")]
    if not batches:
        raise DataError("there are no test images to evaluate a model on")
    return Predictions(*(torch.cat(column).cpu() for column in zip(*batches, strict=True)))


def _predict(model: ImageNet, features: Tensor) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model.head(features)
    return logits.argmax(dim=1).where(logits.isfinite().all(dim=1), -1)


def _batch_sizes(num: int, size: int, merges_one: bool) -> list[int]:
    """Full batches and what remains."""
    size = size or num
    if not num:
        return []
    sizes = [size] * (num // size) + ([num % size] if num % size else [])
    if merges_one and len(sizes) > 1 and sizes[-1] == 1 and size > 1:
        sizes[-2:] = [size + 1]
    return sizes

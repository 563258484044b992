"""The task of image data: batches of a client's images, the local objectives, and the predictions
for test images."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.draws import permutation, uniform, whole_numbers
from curvfed.tasks.errors import DataError
from curvfed.tasks.heads import PrototypeHead, SphereHead, unit
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.task import Batch, Task, filled_up, predictions

Objective = Callable[[ImageNet, Tensor, Tensor], Tensor]
"""(model, images (n, c, h, w), labels (n,)) -> the mean loss over the batch, of shape (); n ≥ 1."""


def objective(
    kind: str, margin: float = 3.0, negatives: str = "one", mixup: float = 0.0
) -> Objective:
    """The local objective with these settings.

    Parameters
    ----------
    kind : str
        "cross-entropy", "mse", "geodesic" or "triplet"; only "triplet" has the other settings.
    margin : float
        m ≥ 0; 3 in the paper. The loss can reach 0 only if m is at most the smallest distance
        between two prototypes.
    negatives : str
        "one" of the other classes, drawn per image and step, or "all" of them.
    mixup : float
        Coefficient ≥ 0 of the second term; 0 in the paper, 2 in its authors' code.
    """
    if kind == "triplet":
        return partial(triplet, margin, negatives, mixup)
    return {"cross-entropy": cross_entropy, "mse": mse, "geodesic": geodesic}[kind]


def cross_entropy(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the logits."""
    return F.cross_entropy(model(images), labels)


def mse(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """‖logits − one-hot label‖²/C. SphereFed, Eq. 5, where the head's temperature is 1."""
    logits = model(images)
    # one_hot would read the labels, and thus wait for a GPU.
    targets = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0)
    return F.mse_loss(logits, targets)


def geodesic(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Distance d(z, w_y) to the prototype of the image's class, without margin and negatives.

    Parameters
    ----------
    model : ImageNet
        With a `PrototypeHead`; its logits are −d.
    """
    head = cast(PrototypeHead, model.head)
    return head.distances(model.features(images), labels[:, None]).mean()


def triplet(
    margin: float, negatives: str, mixup: float, model: ImageNet, images: Tensor, labels: Tensor
) -> Tensor:
    """max(d(z, w_y) − d(z, w_y') + m, 0), for one negative class y' ≠ y or the mean over all.
    HyperFed, Eq. 7.

    Parameters
    ----------
    margin, negatives, mixup
        As in `objective`; m is the margin.
    model : ImageNet
        With a `PrototypeHead`; its logits are −d.

    Raises
    ------
    ValueError
        If there is a single class, and thus no negative.

    Notes
    -----
    A nonzero `mixup` adds `mixup` times the cross-entropy of mixed images, as in the authors' code.
    The logits are the cosines of features and prototypes, not scaled. Draws are from
    `curvfed.tasks.draws`.
    """
    features = model.features(images)
    head = cast(PrototypeHead, model.head)
    num_classes = len(head.weight)
    if num_classes == 1:
        raise ValueError(
            "the triplet loss has no negative if the federation has 1 class: use 2 or more"
        )
    if negatives == "one":
        shift = whole_numbers(num_classes, labels.shape, labels.device, start=1)
        negative = (labels + shift) % num_classes
        distances = head.distances(features, torch.stack([labels, negative], dim=1))
        loss = (distances[:, 0] - distances[:, 1] + margin).relu().mean()
    else:
        distances = -head(features)
        to_label = distances.gather(1, labels[:, None])
        hinges = (to_label - distances + margin).relu().scatter(1, labels[:, None], 0.0)
        loss = hinges.sum(dim=1).mean() / (num_classes - 1)
    if mixup:
        return loss + mixup * _mixup(model, images, labels)
    return loss


def _mixup(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of λ·images + (1 − λ)·(images in another order), with both labels. Zhang et
    al., mixup (2018)."""
    # sin²(πu/2) of a uniform u is Beta(1/2, 1/2).
    level = uniform((), images.device, images.dtype)
    share = (level * (math.pi / 2)).sin().square()
    order = permutation(len(images), images.device)
    features = model.features(torch.lerp(images[order], images, share))
    cosines = F.linear(unit(features), unit(cast(PrototypeHead, model.head).prototypes))
    loss = F.cross_entropy(cosines, labels)
    other_loss = F.cross_entropy(cosines, labels[order])
    return share * loss + (1 - share) * other_loss


EVALUATION_BATCH = 512

PADDING = 4

ALL = "all"
"""The role of all images, those of unknown class too."""


class ImageTask(Task):
    """One client's images on its device, as bytes; each batch is converted on demand. Features of
    a frozen network stay as they are.

    Parameters
    ----------
    images : ClientImages
        Any number of images, also none.
    class_names, device
        As in `Task`.
    batch_size : int
        0: all images. The last batch of a pass takes the remaining images.
    objective : callable
        The local loss of a batch, as `objective` gives it.
    augment : bool
        Whether training images are cropped and flipped at random.
    mixed_precision : bool
        Whether the model's body trains in bfloat16 where that is safe.
    has_batch_norm : bool
        Whether the model has batch normalisation, which cannot train on a batch of one image: a
        last batch of one image joins the batch before it, and if all batches have one image the
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
        self._images = images.images.to(device)
        self._has_pixels = images.has_pixels
        self._mean = 255 * torch.tensor(images.mean, device=device)[:, None, None]
        self._std = 255 * torch.tensor(images.std, device=device)[:, None, None]
        # Convolutions on a GPU's matrix units need the channels of a pixel side by side.
        self._layout = torch.channels_last if device.type == "cuda" else torch.contiguous_format
        self._objective = objective
        self._augment = augment
        self._mixed_precision = mixed_precision
        self._sizes = _batch_sizes(self.num_examples, batch_size, merges_one=has_batch_norm)
        self._freezes_norms = has_batch_norm and 1 in self._sizes

    @property
    def num_steps(self) -> int:
        """The number of batches."""
        return len(self._sizes)

    def batches(self, model: nn.Module) -> Iterator[Batch]:
        """One pass in shuffled batches, each image once."""
        net = cast(ImageNet, model)
        net.mixed_precision = self._mixed_precision
        if self._freezes_norms:
            for layer in net.modules():
                if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                    layer.eval()
        shuffled = permutation(self.num_examples, self.labels.device)
        for positions in torch.split(shuffled, self._sizes):
            numbers = self.parts["train"][positions]
            yield Batch(self._batch(numbers, self._augment), self.labels[numbers])

    def batches_of(self, positions: Tensor, size: int) -> Iterator[Batch]:
        """The training images at these positions among the training images, in batches of `size`,
        the last one filled up; see `IndependentExamples`."""
        chosen = self.parts["train"][positions.to(self.labels.device)]
        for start in range(0, len(chosen), size):
            numbers = chosen[start : start + size]
            images = self._batch(filled_up(numbers, size), self._augment)
            rows = torch.arange(len(numbers), device=numbers.device)
            yield Batch(images, self.labels[numbers], rows)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The local objective of a batch."""
        return self._objective(cast(ImageNet, model), batch.inputs, batch.labels)

    def _batch(self, numbers: Tensor, augment: bool = False) -> Tensor:
        """Images (b, c, h, w), float32, with mean 0 and variance 1 over the data set; or features
        (b, d, 1, 1)."""
        pixels = self._images.index_select(0, numbers)
        if not self._has_pixels:
            return pixels
        if augment:
            pixels = crop_and_flip(pixels)
        return pixels.to(torch.float32, memory_format=self._layout).sub_(self._mean).div_(self._std)

    def features(
        self, model: nn.Module, role: str = "train", size: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Features (b, d), float32, and labels (b,) of the "train", "val", "test" or of "all"
        images in batches, in evaluation mode.

        With a size, all batches are filled up to it: an image's features are then the same to the
        bit, whatever other images there are.
        """
        model.eval()
        chosen = torch.arange(len(self.labels)) if role == ALL else self.parts[role]
        for numbers in torch.split(chosen.to(self.labels.device), size or EVALUATION_BATCH):
            if len(numbers):  # torch splits an empty tensor into one empty chunk
                images = self._batch(filled_up(numbers, size or len(numbers)))
                # A head cannot train on tensors of inference mode.
                with torch.no_grad():
                    features = cast(ImageNet, model).features(images)
                yield features[: len(numbers)], self.labels[numbers]

    def logits(self, model: nn.Module, role: str = ALL) -> Tensor:
        """Logits (n, C) of the "train", "val", "test" or of all images, in evaluation mode and
        float32."""
        head = cast(ImageNet, model).head
        with torch.no_grad():
            logits = [head(features) for features, _ in self.features(model, role)]
        if not logits:
            return torch.zeros(0, self._num_classes, device=self.labels.device)
        return torch.cat(logits)

    def scored_logits(self, model: nn.Module) -> dict[str, Tensor]:
        """Logits (m, C) of the "val" and of the "test" images."""
        return {name: self.logits(model, name) for name in ("val", "test")}


class Predictions(NamedTuple):
    """The predictions of a model for n images, on the CPU.

    Attributes
    ----------
    labels, predicted : Tensor, (n,), int64
        `predicted` is −1, which is never a label, if a logit is not finite.
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
        If a class is not among `class_names`, or test images are missing.
    """
    task = ImageTask(images, class_names, device)
    with torch.no_grad():
        batches = [
            (labels, predictions(model.head(features)), features)
            for features, labels in task.features(model, "test")
        ]
    if not batches:
        raise DataError("there are no test images to evaluate a model on", key="no-test-images")
    return Predictions(*(torch.cat(column).cpu() for column in zip(*batches, strict=True)))


def _batch_sizes(num: int, size: int, merges_one: bool) -> list[int]:
    """Sizes of full batches, and of a batch with the remaining images."""
    size = size or num
    sizes = [min(size, num - first) for first in range(0, num, size or 1)]
    if merges_one and len(sizes) > 1 and sizes[-1] == 1 and size > 1:
        sizes[-2:] = [size + 1]
    return sizes


def crop_and_flip(images: Tensor) -> Tensor:
    """Randomly shift each image by up to 4 pixels in each direction, filled with 0, and mirror half
    of the images.

    The usual augmentation of CIFAR: a random crop of the image padded by 4, and a random horizontal
    flip.

    Parameters
    ----------
    images : Tensor (n, c, h, w), any dtype

    Returns
    -------
    Tensor (n, c, h, w)
        Of the same dtype. Draws are per image, from `curvfed.tasks.draws`.
    """
    num, _, height, width = images.shape
    device = images.device
    # All crops as a view (n, c, 9, 9, h, w); one indexing operation copies the drawn crops.
    padded = F.pad(images, (PADDING,) * 4)
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    down, right = whole_numbers(2 * PADDING + 1, (2, num), device)
    cropped = crops[torch.arange(num, device=device), :, down, right]
    flipped = uniform((num, 1, 1, 1), device) < 0.5
    return torch.where(flipped, cropped.flip(3), cropped)


def classifier_inputs(model: nn.Module, task: Task, size: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs of the classifier (n, l) and labels (n,) for all training images, in batches as
    `ImageTask.features`.

    Raises
    ------
    DataError
        If the data are not images.
    """
    if not isinstance(model, ImageNet) or not isinstance(task, ImageTask):
        raise DataError(
            "the data are not images; only classifiers of images are calibrated", key="no-images"
        )
    batches = [
        (features.cpu(), labels.cpu()) for features, labels in task.features(model, size=size)
    ]
    dim = model.get_parameter("head.weight").shape[1]
    features = torch.cat([torch.empty(0, dim), *(features for features, _ in batches)])
    labels = torch.cat([torch.empty(0, dtype=torch.int64), *(labels for _, labels in batches)])
    if isinstance(model.head, SphereHead):
        features = model.head.inputs(features)
    return features, labels

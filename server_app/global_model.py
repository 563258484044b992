"""The global model of a run on images or points at the server, scored on test data that no client
has, and these data of a one-shot run."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.geometry.arrays import Array
from curvfed.server_app.directory.array_files import SPACES, write_npz
from curvfed.server_app.federation import Federation, read_test
from curvfed.strategies.base.figures import GLOBAL_EXAMPLES
from curvfed.strategies.base.one_shot import ServerPoints
from curvfed.strategies.base.statistics import Arrays, named_state
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.device import move_to_device, pick_device
from curvfed.strategies.config.run_config import RunConfig, open_dataset
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.tasks.errors import DataError
from curvfed.tasks.heads import PrototypeHead
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import evaluate
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.kinds import GLOBAL_TRIVIAL, KINDS
from curvfed.tasks.registry import source_of
from curvfed.tasks.task import predictions

if TYPE_CHECKING:
    from curvfed.tasks.points import ClientPoints


SHOWN_FEATURES = 2000
"""Number of test images with features in the report."""

SHOWN_CLASSES = 20
"""Maximum number of classes with an image of the user's own in the report."""

THUMBNAIL = 64
"""Maximum number of pixels on a side of such an image."""


class ScoredModel(Protocol):
    """A model of all clients that the server scores."""

    @property
    def figures(self) -> dict[str, float]:
        """Further figures, those of the trivial answer among them."""
        ...

    def score(self, arrays: Arrays) -> float | None:
        """The accuracy of the model with these arrays on the test data, if there are any."""
        ...

    def write(self, arrays: Arrays, calibrated: Arrays, folder: Path) -> None:
        """Write the arrays from which the report draws."""
        ...


def open_global_model(
    config: RunConfig, federation: Federation, is_global: bool
) -> "ScoredModel | None":
    """The model that all clients share and the test data; None if either is missing.

    Parameters
    ----------
    config : RunConfig
        The resolved configuration.
    federation : Federation
    is_global : bool
        Whether the aggregation has one model for all clients.

    Raises
    ------
    ConfigError
        If the test data cannot be read, or have other classes or another shape.
    """
    test = read_test(config, federation)
    if test is None:
        return None
    if not is_global:
        log.info("no global accuracy: every client has a model of its own")
        return None
    device = pick_device(config.device)
    model = move_to_device(build_model(model_spec(config, federation.facts), config.seed), device)
    if config.row.personal_names(named_state(model)):
        log.info("no global accuracy: parts of the model stay with the clients")
        return None
    make = KINDS[federation.facts.task].part("global-model")
    if make is not None:
        added: ScoredModel = make(model, test, federation.facts.class_names, config, device)
        return added
    if not isinstance(model, ImageNet):
        return GlobalPoints(model, test, federation.facts.class_names, device)
    is_own = config.test_data != "auto" or source_of(config.dataset) is None
    return GlobalModel(
        model, test, federation.facts.class_names, config.network.head, device, is_own
    )


def test_figures(labels: Array) -> dict[str, float]:
    """The number of test examples, and the accuracy of always answering their most frequent
    class."""
    _, counts = np.unique(labels, return_counts=True)
    number = int(counts.sum())
    return {GLOBAL_TRIVIAL: float(counts.max() / number), GLOBAL_EXAMPLES: number}


class GlobalPoints:
    """A model and the test points that it is scored on; arguments as those of `GlobalModel`."""

    def __init__(
        self,
        model: nn.Module,
        test: "ClientPoints",
        class_names: tuple[str, ...],
        device: torch.device,
    ) -> None:
        self._model = model
        self._points = torch.from_numpy(test.points).to(device)
        # A class that no client has gets a number beyond those of the model.
        self._labels = _renumbered(test, class_names).labels

    @property
    def figures(self) -> dict[str, float]:
        """See `test_figures`."""
        return test_figures(self._labels)

    def score(self, arrays: Arrays) -> float:
        """Accuracy of the model with these arrays on the test points."""
        return float((self._predicted(arrays) == self._labels).mean())

    def write(self, arrays: Arrays, calibrated: Arrays, folder: Path) -> None:
        """Write `global_test.npz`: labels and predictions (-1 where not finite); no features."""
        content = {
            "labels": self._labels,
            "predicted": self._predicted(arrays),
            "features": np.zeros((0, 0)),
            "space": np.array("flat"),
        }
        write_npz(folder / "global_test.npz", content)

    def _predicted(self, arrays: Arrays) -> Array:
        load_arrays(arrays, named_state(self._model))
        with torch.no_grad():
            return predictions(self._model(self._points)).cpu().numpy()


@dataclass(frozen=True)
class GlobalModel:
    """A model and the test images that it is scored on.

    Attributes
    ----------
    model : ImageNet
    test : ClientImages
    class_names : tuple of str
    head : str
        The kind of its classifier.
    device : torch.device
        Where the model is.
    is_own : bool
        Whether the images are the user's own, so that the report shows some.
    """

    model: ImageNet
    test: ClientImages
    class_names: tuple[str, ...]
    head: str
    device: torch.device
    is_own: bool

    @property
    def figures(self) -> dict[str, float]:
        """See `test_figures`."""
        return test_figures(self.test.labels.numpy(force=True))

    def score(self, arrays: Arrays) -> float:
        """Accuracy of the model with these arrays on the test images."""
        labels, predicted, _ = self._run(arrays)
        return float((labels == predicted).mean())

    def write(self, arrays: Arrays, calibrated: Arrays, folder: Path) -> None:
        """Write `global_test.npz`: labels, predictions (-1 where not finite), features of some
        images, the prototypes that they were trained towards, before any calibration, and one
        image per class of the user's own images, if the model takes pixels."""
        load_arrays(arrays, named_state(self.model))
        head = self.model.head
        # The network of another package has no separate classifier.
        weight = dict(head.named_parameters()).get("weight", torch.zeros(0, len(self.class_names)))
        prototypes = head.prototypes if isinstance(head, PrototypeHead) else weight.clone()
        # In random order: in many data sets the first images are all of a class or two.
        order = np.random.default_rng(0).permutation(len(self.test.labels))
        labels, predicted, features = (array[order] for array in self._run(arrays | calibrated))
        space = self.head if self.head in SPACES else "flat"
        if isinstance(head, PrototypeHead) and head.curvature:
            space = "poincare"
            features = features * math.sqrt(-head.curvature)
        content = {
            "labels": labels,
            "predicted": predicted,
            "features": features[:SHOWN_FEATURES],
            "prototypes": prototypes.numpy(force=True),
            "space": np.array(space),
        }
        if self.is_own and self.test.has_pixels:
            image_labels, first = np.unique(labels, return_index=True)
            shown = torch.from_numpy(order[first[:SHOWN_CLASSES]])
            content |= {
                "images": _thumbnails(self.test.images[shown]),
                "image_labels": image_labels[:SHOWN_CLASSES],
            }
        write_npz(folder / "global_test.npz", content)

    def _run(self, arrays: Arrays) -> tuple[Array, Array, Array]:
        load_arrays(arrays, named_state(self.model))
        outputs = evaluate(self.model, self.test, self.class_names, self.device)
        labels, predicted, features = (tensor.cpu().numpy() for tensor in outputs)
        return labels, predicted, features


def _thumbnails(images: Tensor) -> Array:
    """Images (n, c, h, w) as (n, height, width, 1 or 3), at most `THUMBNAIL` pixels on a side."""
    channels, *sides = images.shape[1:]
    scale = min(1.0, THUMBNAIL / max(sides))
    visible = images[:, : 3 if channels >= 3 else 1]
    size = [max(1, round(scale * side)) for side in sides]
    return F.interpolate(visible, size, mode="bilinear", antialias=True).permute(0, 2, 3, 1).numpy()


def read_server_points(config: RunConfig, federation: Federation) -> ServerPoints:
    """The server's test points, and of a public data set all points.

    Raises
    ------
    ConfigError
        If the test data or the public data set cannot be read.
    """
    described = federation.descriptions
    test = read_test(config, federation)
    if not federation.shares_public_data:
        return ServerPoints(test)
    dataset: Any = open_dataset(config, federation.facts.task)
    try:
        parts = {
            partition: dataset.part(partition, description.num_partitions)
            for partition, description in described.items()
        }
        pooled = dataset.pooled()
    except DataError as error:
        raise ConfigError(str(error), key="data") from None
    same = {
        partition: points
        for partition, points in parts.items()
        if points.digest == described[partition].digest
    }
    if changed := ", ".join(str(partition) for partition in parts if partition not in same):
        log.warning(
            "the server's points differ from those of partition-id %s: they are not compared",
            changed,
        )
    if not same:
        return ServerPoints(test)
    return ServerPoints(_renumbered(test, pooled.class_names) if test else None, pooled, same)


def _renumbered(test: "ClientPoints", names: tuple[str, ...]) -> "ClientPoints":
    """Test points with the clients' class numbers; classes that no client has come last."""
    all_names = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([all_names.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=all_names)

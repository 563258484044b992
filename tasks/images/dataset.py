"""Images: the readers of public data sets, the parts of a data set, the global test set, and the
tasks of the clients."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from curvfed.geometry.arrays import Integers
from curvfed.tasks.dataset import Dataset, Place
from curvfed.tasks.errors import DataError, ModelError
from curvfed.tasks.images import class_folders, encoder
from curvfed.tasks.images.client_task import ImageTask, objective
from curvfed.tasks.images.clients import (
    ClientImages,
    ImageSpec,
    global_test,
    own_images,
    share_images,
)
from curvfed.tasks.images.folder import located_folder
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.layout import (
    LAYOUTS,
    TABLE,
    TEST,
    TRAIN,
    part_classes,
)
from curvfed.tasks.images.models import ImageModelSpec, head_spec
from curvfed.tasks.images.nets import has_batch_norm, torchvision_module
from curvfed.tasks.images.raw import RawImages, raw_images
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.public_data import Located, PublicData
from curvfed.tasks.sources import TINY, Source

DIGITS = tuple("0123456789")

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def find(source: Source, data_dir: Path) -> Located[RawImages] | None:
    """The files of a public data set, or None if they are absent."""
    located = _find(source, data_dir.expanduser())
    if located is None:
        return None

    def read() -> RawImages:
        try:
            return located.read()
        except (DataError, ImportError):
            raise
        except Exception as error:  # the loaders may raise anything
            folders = " or ".join(map(str, source.search_folders(data_dir)))
            raise DataError(
                f"the files of {source.title} in {folders} cannot be read ({type(error).__name__}:"
                f" {error}): they are damaged, or not the original ones. Remove them, and on a"
                f" machine with a network run:\n{source.command(data_dir)}",
                str(error),
                key="unreadable",
            ) from error

    return replace(located, read=read)


def _find(source: Source, data_dir: Path) -> Located[RawImages] | None:
    if not source.folders:
        return Located((), read_digits)
    folder = source.folder(data_dir)
    if folder is not None and source.files:
        reader, *arguments = source.read
        files = tuple(folder / name for name in source.files)
        return Located(files, partial(globals()[reader], *arguments, data_dir))
    if source.title == "CIFAR-10":
        return _find_cifar10(data_dir)
    return _find_tiny(data_dir) if source.title == "TinyImageNet" else None


def _find_cifar10(data_dir: Path) -> Located[RawImages] | None:
    """CIFAR-10 as image files, CLASS/* in train/ and test/."""
    parts = {TRAIN: data_dir / "train", TEST: data_dir / "test"}
    if any(class_folders(folder) != CIFAR10 for folder in parts.values()):
        return None
    return located_folder(data_dir, parts)


def _find_tiny(data_dir: Path) -> Located[RawImages] | None:
    """TinyImageNet; its test part val/ is one folder with a table, as published, or has a folder
    per class."""
    folder = data_dir / TINY
    parts = {TRAIN: folder / "train", TEST: folder / "val"}
    train, val = map(part_classes, parts.values())
    is_published = val == ("images",) and (parts[TEST] / TABLE).is_file()
    if not train or not val or not (is_published or set(val) <= set(train)):
        return None
    return located_folder(folder, parts)


def _read_both(
    collection: str, root: Path, **arguments: Any
) -> tuple[Tensor, Integers, Integers, list[str]]:
    """Images (n, c, h, w), labels, roles and class names of training and test images, read by a
    class of torchvision."""
    read = getattr(torchvision_module("datasets"), collection)
    train = read(root, train=True, **arguments)
    test = read(root, train=False, **arguments)
    images = torch.cat([torch.as_tensor(train.data), torch.as_tensor(test.data)])
    if images.ndim == 4:
        images = images.permute(0, 3, 1, 2)
    else:
        images = images[:, None]
    labels = np.concatenate([train.targets, test.targets]).astype(np.int64)
    roles = np.repeat([TRAIN, TEST], [len(train.data), len(test.data)])
    return images, labels, roles, train.classes


def read_named(collection: str, root: Path) -> RawImages:
    """Read a data set by a class of torchvision."""
    images, labels, roles, names = _read_both(collection, root)
    # torchvision's names of MNIST's classes are "0 - zero" and so on.
    return raw_images(images, labels, DIGITS if collection == "MNIST" else names, roles)


def read_letters(root: Path) -> RawImages:
    """Read EMNIST letters. In the files the images are transposed and the labels count from 1."""
    images, labels, roles, names = _read_both("EMNIST", root, split="letters")
    return raw_images(images.transpose(2, 3), labels - 1, names[1:], roles)


def read_digits() -> RawImages:
    """Read the digits of scikit-learn, 8x8, with pixels in 0..16."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    levels = np.rint(digits.images * (255 / 16))
    pixels = torch.from_numpy(levels.astype(np.uint8))
    return raw_images(pixels[:, None], digits.target.astype(np.int64), DIGITS)


class ImageDataset(Dataset):
    """Images of classes, a share of the training part for each client; pixels are read on demand.

    Normalisation and augmentation are those of `spec.dataset`, also of a node's own images, so that
    nodes and server agree. Without a test part a fifth of each class is the global test set.
    """

    examples = ClientImages
    raw = (RawImages,)
    tasks = ("images",)
    place_words = "images in "
    spec: ImageSpec

    @classmethod
    def configured(cls, run: Any, cache: Path | None = None) -> Self:
        """The images of a run's configuration."""
        numbers = ("size", "channels", "train_subset", "test_subset", "pooled", "classes_at")
        settings = {name: getattr(run.images, name) or 0 for name in numbers}
        if run.images.encoder:
            settings["encoder"] = run.images.encoder
            settings["size"] = run.images.size or encoder.SIZE
        partition = PartitionSpec(run.partition, run.alpha, run.shards, run.min_client_size)
        return cls(ImageSpec.of_run(run, partition=partition, **settings), cache)

    def find(self, source: PublicData) -> Located[RawImages] | None:
        """The files of a public data set, or None if they are absent."""
        return find(cast(Source, source), self.spec.data_dir)

    def locate_files(self, path: Path) -> Located[RawImages]:
        """Locate a user's folder of images."""
        if not path.is_dir():
            raise DataError(f"no folder {path}; allowed is one with {LAYOUTS}", key="no-file")
        return located_folder(path, level=self.spec.classes_at)

    def places(self) -> list[Place]:
        """The places of the data, and that of the frozen network's weights if the run has one."""
        first, *others = super().places()
        if self.spec.encoder:
            weights = encoder.find_encoder(self.spec.encoder).place
            size = self.spec.size
            text = f"{first.text}\nencoder: {weights}, of images of {size}x{size}"
            first = first._replace(text=text)
        return [first, *others]

    def part(self, partition_id: int, num_partitions: int) -> ClientImages:
        """A share of the training images; see `share_images`.

        With `min_client_size` 0 a client may lack images.
        """
        located = self.locate()
        settings = asdict(self.spec) | {
            "data_dir": "",
            "test_subset": 0,
            "num_partitions": num_partitions,
        }

        def prepare() -> Iterator[ClientImages]:
            return share_images(located.read(), self.spec, num_partitions, self.record_split)

        share: ClientImages = self.prepared(located, partition_id, settings, prepare)
        return share

    def prepared(
        self,
        located: Located[RawImages],
        number: int,
        settings: Mapping[str, Any],
        prepare: Callable[[], Iterable[Any]],
    ) -> Any:
        """The examples from the cache; its key includes the digest of a folder."""
        name = settings["dataset"].lower()
        settings = {**settings, "dataset": name, "images": located.digest}
        return super().prepared(located, number, settings, prepare)

    def own_settings(self) -> dict[str, Any]:
        """The settings of pixels and split."""
        names = (
            "dataset",
            "size",
            "encoder",
            "channels",
            "seed",
            "train_size",
            "test_size",
            "pooled",
        )
        return {"own": 1} | {name: getattr(self.spec, name) for name in names}

    def own_data(self, raw: RawImages) -> ClientImages:
        """A node's own images."""
        return own_images(raw, self.spec, self.record_split)

    def test(self, path: Path | None = None) -> ClientImages | None:
        """The data set's global test set, None if the clients have it, or the images of a folder:
        its test part, or all of it without one. All are marked as test images, and stored in the
        cache like a client.

        Raises
        ------
        DataError
            Absent or unfit data, no test images, or fewer than `test_subset`.
        """
        spec = self.spec
        if spec.pooled and path is None:
            return None
        located = self.locate() if path is None else self.locate_own(path.expanduser())
        channels = spec.all_channels if path is None else spec.channels
        settings = {
            "dataset": spec.dataset,
            "size": spec.size,
            "encoder": spec.encoder,
            "test_subset": spec.test_subset,
            "test": 1,
            "whole": path is not None,
            "channels": channels,
            "seed": spec.seed if spec.test_subset else 0,
        }

        def prepare() -> list[ClientImages]:
            uses_all = path is not None
            return [global_test(located.read(), spec, channels, uses_all, self.record_split)]

        test: ClientImages = self.prepared(located, 0, settings, prepare)
        return test

    @staticmethod
    def task(
        run: Any,
        examples: ClientImages,
        class_names: tuple[str, ...],
        device: torch.device,
        model: nn.Module,
    ) -> ImageTask:
        """The client's images, with the loss of the method and the augmentation of the run."""
        loss = objective(run.network.loss, **run.network.objective)
        augment = run.images.augment
        augments = examples.augments if augment is None else augment == "crop-flip"
        return ImageTask(
            examples,
            class_names,
            device,
            run.batch_size,
            loss,
            augment=augments,
            mixed_precision=run.mixed_precision,
            has_batch_norm=has_batch_norm(model),
        )

    @staticmethod
    def model_spec(
        run: Any,
        facts: Any,
        model: str,
        options: Mapping[str, Any],
        num_features: int,
        num_classes: int,
    ) -> ImageModelSpec:
        """The convolutional network with the head of the method."""
        channels, height, width = (int(size) for size in facts.shape.split("x"))
        network = run.network
        spec = ImageModelSpec(
            kind=model,
            shape=(channels, height, width),
            embedding_dim=run.embedding_dim,
            num_classes=len(facts.class_names),
            head=network.head,
            fixed=network.head_from != "training",
            **{"norm": run.images.norm, **options},
        )
        try:
            if model in KINDS[facts.task].models:
                head_spec(spec)  # refuses an impossible head
        except ValueError as error:
            text = f'method = "{run.method}": {error}'
            raise ModelError(text, key="head-with-method") from None
        except ImportError as error:
            raise ModelError(f'model = "{model}": {error}', key="missing-package") from None
        if network.loss == "triplet" and spec.num_classes < 2:
            raise ModelError(
                f'method = "{run.method}" needs 2 classes or more; the federation has'
                f" {spec.num_classes}",
                key="too-few-classes",
            )
        return spec


DATASET = ImageDataset

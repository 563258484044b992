"""Images: their files, the parts of a data set, the global test set, and the tasks of the
clients."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import nn

from curvfed.tasks.class_names import names_listed
from curvfed.tasks.dataset import Dataset
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import format_of
from curvfed.tasks.images import readers
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import ImageTask
from curvfed.tasks.images.clients import global_test, own_images, share_images
from curvfed.tasks.images.folder import located_folder
from curvfed.tasks.images.image_spec import ImageSpec
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.layout import LAYOUTS, read_layout
from curvfed.tasks.images.nets import has_batch_norm
from curvfed.tasks.images.objectives import objective
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.images.sources import Source
from curvfed.tasks.public_data import Located, PublicData


class ImageDataset(Dataset):
    """Images of classes, a share of the training part for each client; pixels are read on demand.

    Normalisation and augmentation are those of `spec.dataset`, also of a node's own images, so that
    nodes and server agree. Without a test part a fifth of each class is the global test set.
    """

    examples = ClientImages
    raw = (RawImages,)
    needed = "images"
    place_words = "images in "
    spec: ImageSpec

    @classmethod
    def of_run(cls, run: Any, cache: Path | None = None) -> Self:
        """The images of a run's configuration."""
        keys = run.images
        spec = ImageSpec(
            dataset=run.dataset,
            data_dir=run.data_path,
            partition=PartitionSpec(run.partition, run.alpha, run.shards, run.min_client_size),
            seed=run.seed,
            train_size=run.train_size,
            test_size=run.test_size,
            size=keys.size or 0,
            channels=keys.channels or 0,
            train_subset=keys.train_subset or 0,
            test_subset=keys.test_subset or 0,
        )
        return cls(spec, cache)

    def find(self, source: PublicData) -> Located[RawImages] | None:
        """The files of a public data set, or None if they are absent."""
        return readers.find(cast(Source, source), self.spec.data_dir)

    @property
    def is_there(self) -> Callable[[Path], bool]:
        """Images are a folder, or a file of another tool."""
        return Path.exists

    def locate_files(self, path: Path) -> Located[RawImages]:
        """Locate a user's folder of images."""
        if not path.is_dir():
            raise DataError(f"no folder {path}; allowed is one with {LAYOUTS}", key="no-file")
        return located_folder(path)

    def locate_path(self, path: Path) -> Located[RawImages]:
        """Locate a folder; refuse classes without training images."""
        is_folder = path.is_dir() and format_of(path) is None
        if is_folder and (untrained := read_layout(path).untrained):
            raise DataError(
                f"{path}: {names_listed(untrained)} are classes of only the test part, which no"
                " model learns; allowed are test images of the classes of the training part",
                key="untrained-classes",
            )
        return self.locate_own(path)

    def part(self, partition_id: int, num_partitions: int) -> ClientImages:
        """A share of the training images, split at random.

        With `min_client_size` 0 a client may have no images; every other client has at least one
        training image.
        """
        located = self.locate()
        settings = asdict(self.spec) | {
            "data_dir": "",
            "test_subset": 0,
            "num_partitions": num_partitions,
        }

        def prepare() -> Iterator[ClientImages]:
            return share_images(located.read(), self.spec, num_partitions)

        part: ClientImages = self.prepared(located, partition_id, settings, prepare)
        return part

    def prepared(
        self,
        located: Located[RawImages],
        number: int,
        settings: Mapping[str, Any],
        prepare: Callable[[], Iterable[Any]],
    ) -> Any:
        """From the cache, whose key includes the digest of a folder."""
        name = settings["dataset"].lower()
        settings = {**settings, "dataset": name, "images": located.digest}
        return super().prepared(located, number, settings, prepare)

    def own_settings(self) -> dict[str, Any]:
        """The settings of pixels and split."""
        names = ("dataset", "size", "channels", "seed", "train_size", "test_size")
        return {"own": 1} | {name: getattr(self.spec, name) for name in names}

    def own_data(self, raw: RawImages) -> ClientImages:
        """A node's own images."""
        return own_images(raw, self.spec)

    def test(self, path: Path | None = None) -> ClientImages:
        """The data set's global test set, or the images of a folder: its test part, or all of it
        without one. All are marked as test images, and stored in the cache like a client.

        Raises
        ------
        DataError
            Absent or unfit data, no test images, or fewer than `test_subset`.
        """
        spec = self.spec
        located = self.locate() if path is None else self.locate_own(path.expanduser())
        channels = spec.all_channels if path is None else spec.channels
        settings = {
            "dataset": spec.dataset,
            "size": spec.size,
            "test_subset": spec.test_subset,
            "test": 1,
            "whole": path is not None,
            "channels": channels,
            "seed": spec.seed if spec.test_subset else 0,
        }

        def prepare() -> list[ClientImages]:
            return [global_test(located.read(), spec, channels, uses_all=path is not None)]

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
        return ImageTask(
            examples,
            class_names,
            device,
            run.batch_size,
            loss,
            augment=examples.augments if augment is None else augment == "crop-flip",
            mixed_precision=run.mixed_precision,
            has_batch_norm=has_batch_norm(model),
        )


DATASET = ImageDataset

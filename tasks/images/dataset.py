"""Images: the digits, the parts of a data set, the global test set, and the clients' tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from curvfed.tasks.class_names import names_listed
from curvfed.tasks.dataset import Dataset
from curvfed.tasks.errors import DataError, ModelError
from curvfed.tasks.images import encoder
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import ImageTask, objective
from curvfed.tasks.images.clients import (
    ImageSpec,
    global_test,
    own_images,
    share_images,
)
from curvfed.tasks.images.folder import located_folder
from curvfed.tasks.images.label_partition import USERS, PartitionSpec
from curvfed.tasks.images.layout import LAYOUTS
from curvfed.tasks.images.models import ImageModelSpec, head_spec
from curvfed.tasks.images.nets import has_batch_norm
from curvfed.tasks.images.raw import RawImages, raw_images
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.places import Place
from curvfed.tasks.public_data import Located, PublicData

DIGITS = tuple("0123456789")


def read_digits() -> RawImages:
    """Read the digits of scikit-learn, 8x8, with pixels in 0..16."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    levels = np.rint(digits.images * (255 / 16))
    pixels = torch.from_numpy(levels.astype(np.uint8))
    return raw_images(pixels[:, None], digits.target.astype(np.int64), DIGITS)


def find_digits(source: PublicData, data_dir: Path) -> Located[RawImages]:
    """The digits, which are a part of scikit-learn."""
    return Located((), read_digits)


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
        numbers = (
            "size",
            "channels",
            "bits",
            "train_subset",
            "test_subset",
            "pooled",
            "classes_at",
        )
        settings = {name: getattr(run.images, name) or 0 for name in numbers}
        if run.images.encoder:
            settings["encoder"] = run.images.encoder
            settings["size"] = run.images.size or encoder.SIZE
        partition = PartitionSpec(run.partition, run.alpha, run.shards, run.min_client_size)
        return cls(ImageSpec.of_run(run, partition=partition, **settings), cache)

    def locate_files(self, path: Path) -> Located[RawImages]:
        """Locate a user's folder of images."""
        if not path.is_dir():
            raise DataError(f"no folder {path}; allowed is one with {LAYOUTS}", key="no-file")
        return located_folder(path, level=self.spec.classes_at)

    def places(self) -> list[Place]:
        """The places of the data, with the sites of a user's folder, and the place of the frozen
        network's weights if the run has one."""
        first, *others = super().places()
        sites = self.locate().sites if first.decision else ()
        if len(sites) > 1:
            first = self._with_sites(first, sites)
        if self.spec.encoder:
            weights = encoder.find_encoder(self.spec.encoder).place
            size = self.spec.size
            text = f"{first.text}\nencoder: {weights}, of images of {size}x{size}"
            first = first._replace(text=text)
        return [first, *others]

    def _with_sites(self, place: Place, sites: Sequence[str]) -> Place:
        """The place with the names of the sites, or a note if the partition does not keep them."""
        partition = self.spec.partition.partition
        listed = names_listed(sites)
        if partition == USERS:
            return place._replace(text=f"{place.text}\nusers: {listed}")
        note = (
            f"sites {listed} are pooled and parted anew by {partition}; partition={USERS} makes"
            " each a client"
        )
        return place._replace(notes=(*place.notes, note))

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
            "bits",
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
            "bits": spec.bits,
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
        except ModelError:
            raise
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

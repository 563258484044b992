"""Images to predict: a folder, one file, or a run's own data set."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.client_app.data import load_data
from curvfed.deployments.inputs import PredictError, RequestError
from curvfed.deployments.predict.prediction import (
    Examples,
    is_own,
    own_name,
    without_other_classes,
)
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.strategies.base.run_keys import home
from curvfed.tasks.class_names import names_of
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import decide
from curvfed.tasks.images import EXTENSIONS, class_folders, images_in, is_image
from curvfed.tasks.images.client_images import ClientImages, client_images
from curvfed.tasks.images.clients import read_inputs
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.folder import raw_files
from curvfed.tasks.images.layout import TEST, Layout, read_layout
from curvfed.tasks.images.raw import RawImages, converted
from curvfed.tasks.in_memory import Raw

LEVELS = (0, 1, 2, 3)
"""The levels at which the class folders of a folder are looked for, after that of the run; 0: by
their names and contents."""


def image_examples(
    run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None
) -> Examples:
    """All images of `data`: of a folder, of one file, of the run's own data set, or in memory.

    Raises
    ------
    PredictError, ConfigError, DataError
        If a file is missing, or the data do not fit the run.
    """
    if isinstance(data, RawImages):
        examples = _in_shape_of_run(run, data)
    elif is_own(run, str(data)):
        examples = _part_of_run(run, str(data), client)
    else:
        examples = _new_images(run, Path(str(data)).expanduser(), state_path)
    if not len(examples.data.labels):
        raise PredictError("the data have no images; allowed is one or more", key="no-data")
    if examples.data.shape != run.facts.shape:
        raise PredictError(
            f"{data} has images of {examples.data.shape}, the model of this run takes"
            f" {run.facts.shape} (channels x height x width)",
            key="shape",
        )
    return examples


def _part_of_run(run: TrainedRun, data: str, client: int | None) -> Examples:
    """A client's part of the run's data set, or its global test set."""
    if client is None:
        run.check_unchanged(data)
        images = _dataset(run).test(run.config.test_path)
        if images is None:
            raise PredictError(
                "the clients of this run have all images of its data set (images.pooled); allowed"
                " is --client",
                key="no-data",
            )
        notes = {}
        if Path(data).expanduser().is_dir():
            notes["data"] = (
                "the server's test images; to predict all images of a folder, give a copy of it"
            )
        return _examples(images, images.test, "the global test images", notes=notes)
    client_data = load_data(run.config, run.part_of(client))
    run.check_same(data, client, client_data.digest)
    if not isinstance(client_data, ClientImages) or not len(client_data.labels):
        raise PredictError(f"client {client} has no images of {data}", key="no-data")
    return _examples(client_data, client_data.test, "the test images")


def _dataset(run: TrainedRun) -> ImageDataset:
    """The run's data set."""
    return ImageDataset.of_run(run.config, home() / "cache")


def _examples(images: ClientImages, scored: Tensor, scored_words: str, **fields: Any) -> Examples:
    labels = names_of(images.labels.tolist(), images.class_names)
    return Examples(images, labels, scored.numpy(), scored_words, images.names, **fields)


def _new_images(run: TrainedRun, path: Path, state_path: Path | None) -> Examples:
    """Images of the user; with a folder per class, or in another tool's format, their classes are
    known."""
    if not is_image(path.name) and decide(path).form.reader:
        raw = _dataset(run).locate_own(path).read()
        test_images = _to_score(run, path, raw, raw.roles is not None, state_path)
        return _in_shape_of_run(run, raw, *test_images)
    layout = _layout(run, path) if class_folders(path) else None
    samples = layout.samples if layout else ()
    loose = [path] if is_image(path.name) and path.is_file() else images_in(path)
    if bool(samples) == bool(loose):
        raise RequestError(
            f'DATA is "{path}", where there'
            f" {'are images and folders of images' if loose else 'is no image'}; allowed is "
            f"{own_name(run)}an image, a folder of images, or a folder with a folder of images per "
            f"class, files in {' '.join(EXTENSIONS)}",
            key="data",
        )
    folder = path.parent if path.is_file() else path
    class_names = layout.class_names if layout else ()
    if loose:
        class_names = run.facts.class_names
        samples = tuple((str(file), 0, TEST) for file in loose)
    raw = raw_files(folder, samples, class_names)
    scored = _to_score(run, path, raw, layout.has_test, state_path) if layout and not loose else ()
    return _in_shape_of_run(run, raw, *scored)


def _layout(run: TrainedRun, path: Path) -> Layout:
    """The layout of a folder, whose class folders may lie deeper or less deep than the run's: the
    first at which a folder has the name of a class of the run.

    Raises
    ------
    DataError
        If the folder cannot be read, and no level has the name of a class of the run.
    """
    for level in (_dataset(run).spec.classes_at, *LEVELS):
        with contextlib.suppress(DataError):
            layout = read_layout(path, level=level)
            if not {*layout.class_names}.isdisjoint(run.facts.class_names):
                return layout
    return read_layout(path)


def _in_shape_of_run(
    run: TrainedRun,
    raw: RawImages,
    scored: Tensor | None = None,
    scored_words: str = "",
) -> Examples:
    """All images in the run's shape, normalised as in the run. Those of classes that the run lacks
    are not scored."""
    class_names = tuple(name for name in raw.class_names if name in run.facts.class_names)
    places = [class_names.index(name) if name in class_names else -1 for name in raw.class_names]
    labels = torch.tensor(places)[torch.from_numpy(raw.labels)]
    names = raw.names or [str(number) for number in range(len(raw.labels))]
    spec = _dataset(run).spec
    raw = raw.in_bits(spec.bits)
    notes: dict[str, str] = {}
    if spec.encoder:
        pixels = read_inputs(raw, np.arange(len(names)), spec, spec.channels)
    else:
        pixels, notes = _converted(raw, names, run)
    if raw.bits and not spec.bits:
        notes["bits"] = (
            f"16-bit images were read as {raw.bits} bits, by the highest value among them, as the"
            " run records no number of bits: a dark image alone may be read as brighter"
        )
    all_test = torch.tensor([[False], [False], [True]]).expand(-1, len(names))
    images = client_images(
        pixels,
        labels,
        all_test,
        class_names,
        mean=spec.mean,
        std=spec.std,
        augments=False,
    )
    if scored is None:
        scored = torch.zeros_like(images.test)
    own_labels = names_of(raw.labels.tolist(), raw.class_names)
    examples = Examples(images, own_labels, scored.numpy(), scored_words, names, notes)
    return without_other_classes(examples, class_names, "images")


def _converted(
    raw: RawImages, names: Sequence[str], run: TrainedRun
) -> tuple[Tensor, dict[str, str]]:
    """All images in the run's shape, and their changes in words."""
    channels, height, width = (int(size) for size in run.facts.shape.split("x"))
    pixels = torch.empty(len(names), channels, height, width, dtype=torch.uint8)
    resized = recoloured = 0
    for index, name in enumerate(names):
        try:
            image = raw.read(np.array([index]), 0, 0)
        except DataError:
            raw.read(np.arange(len(names)), height, channels)  # its error names all that fail
            raise
        has_size = image.shape[2:] == (height, width)
        if not has_size and height != width:
            raise PredictError(
                f"image {name} is {image.shape[2]}x{image.shape[3]}, the run's are"
                f" {height}x{width}; images can be resized only to squares",
                key="shape",
            )
        resized += not has_size
        recoloured += image.shape[1] != channels
        pixels[index] = converted(image, 0 if has_size else height, channels)[0]
    notes = {}
    if resized:
        notes["sizes"] = f"{_share(resized, len(names))} resized to {height}x{width}, as in the run"
    if recoloured:
        changes = {1: "converted to grey", 3: "given three channels"}
        notes["channels"] = f"{_share(recoloured, len(names))} {changes[channels]}, as in the run"
    return pixels, notes


def _share(number: int, total: int) -> str:
    """The changed images, with their verb."""
    return "the image was" if total == 1 else f"{number} of {total} images were"


def _to_score(
    run: TrainedRun, folder: Path, raw: RawImages, has_test: bool, state_path: Path | None
) -> tuple[Tensor, str]:
    """The images to score: the test images if the folder has some or a client trained on it, or
    else all images."""
    if any(not record.partition_digest for record in run.clients.values()):
        with contextlib.suppress(DataError):  # no client can have such data
            dataset = _dataset(run)
            dataset = ImageDataset(dataset.spec).split_by(dataset.record_split)
            client_data = run.own_data(
                lambda split: dataset.split_by(split).own(folder), state_path
            )
            if client_data is not None:
                return client_data.test, "the test images"
    if not has_test or raw.roles is None:
        return torch.ones(len(raw.labels), dtype=torch.bool), "all images"
    return torch.from_numpy(raw.roles == TEST), "the test images"

"""Predictions on images: a folder, one file, or a run's own data set."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.client_app.data import load_data
from curvfed.client_app.personal import PARAMETER, scatter
from curvfed.deployments.trained_run import PredictError, Prediction, TrainedRun
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.model_state import named_state
from curvfed.strategies.config.device import pick_device
from curvfed.strategies.config.halves import learner_class
from curvfed.strategies.config.image_data import image_spec
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.config.run_config import home
from curvfed.strategies.wire.arrays import check_arrays
from curvfed.tasks.errors import DataError
from curvfed.tasks.images.client_images import ClientImages, client_images
from curvfed.tasks.images.client_task import evaluate
from curvfed.tasks.images.data import USER_MEAN, USER_STD, load_own, load_test, load_test_folder
from curvfed.tasks.images.datasets import source_of
from curvfed.tasks.images.folder import EXTENSIONS, class_folders, images_of, listed, parts_of
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.images.raw import TEST, RawImages, brought_to
from curvfed.tasks.in_memory import Raw


@dataclass(frozen=True, eq=False)
class _Shown:
    """What the model is shown.

    Attributes
    ----------
    images : ClientImages
        All of them marked as test images, which a model is evaluated on.
    names : list of str
    scored : Tensor, (n,), bool
        Those of known class that the model is scored on.
    which : str
        These, in words; "" for none.
    about : dict of str to str
        What had to be done to them.
    """

    images: ClientImages
    names: list[str]
    scored: Tensor
    which: str
    about: dict[str, str]


def predict_images(
    run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None, calibrated: bool = True
) -> Prediction:
    """Predict the classes of all images of `data`: of a folder, of one file, of the run's own data set, or in memory.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If something is absent, or data, model and personal state do not fit together.
    """
    if client is not None and client not in run.clients:
        raise PredictError(f"--client is {client}; the clients of this run are {run.listed}")
    shown = (
        _in_memory(run, data)
        if not isinstance(data, str)
        else _own(run, data, client)
        if _is_own(run, data)
        else _given(run, Path(data).expanduser())
    )
    if shown.images.shape != run.facts.shape:
        raise PredictError(
            f"{data} has images of {shown.images.shape}, the model of this run takes {run.facts.shape} (channels x "
            "height x width)"
        )
    model, which = _model(run, client, state_path, calibrated)
    device = pick_device("auto")
    model = model.to(device)
    labels, predicted, features = evaluate(model, shown.images, run.facts.class_names, device)
    with torch.no_grad():
        chances = model.head(features.to(device)).double().softmax(dim=1).cpu()
    right = (predicted == labels)[shown.scored].double()
    told = {"images": str(len(labels))}
    if len(right):
        told["images"] += f", {len(right)} to score on"
        told[f"accuracy on {shown.which}"] = f"{right.mean().item():.4f}"
    return Prediction(
        "image",
        shown.names,
        [run.facts.class_names[index] if index >= 0 else "" for index in predicted.tolist()],
        chances.gather(1, predicted.clamp(min=0)[:, None])[:, 0],
        {"method": run.config.method, "model": which} | shown.about | told,
    )


def _is_own(run: TrainedRun, data: str) -> bool:
    """Whether `data` is the run's data set, by name or as the same folder."""
    if data.lower() == run.config.dataset.lower():
        return True
    paths = [Path(one).expanduser() for one in (data, run.config.dataset)]
    return all(path.exists() for path in paths) and os.path.samefile(*paths)


def _own(run: TrainedRun, data: str, client: int | None) -> _Shown:
    """A client's part of the run's data set, else its global test set."""
    if client is None:
        spec, cache = image_spec(run.config), home() / "cache"
        if run.config.test_data in ("auto", "none"):
            images = load_test(spec, cache)
        else:
            images = load_test_folder(Path(run.config.test_data).expanduser(), spec, cache)
        which = "the global test images"
    else:
        part = load_data(run.config, client, run.part_of(client))
        if not isinstance(part, ClientImages) or part.digest != run.clients[client].digest:
            raise PredictError(f"{data} is not what client {client} of this run trained on; have its files changed?")
        if not len(part.labels):
            raise PredictError(f"client {client} has no images of {data}")
        images, which = part, "the test images"
    numbers = [str(number) for number in range(len(images.labels))]
    return _Shown(replace(images, test=torch.ones_like(images.test)), numbers, images.test, which, {})


def _given(run: TrainedRun, path: Path) -> _Shown:
    """The user's own images: of known classes where these are the names of folders."""
    parts = parts_of(path) if class_folders(path) else {}
    class_names = sorted({name for part in parts.values() for name in class_folders(part)})
    samples = [(file, label, role) for role, part in parts.items() for file, label in images_of(part, class_names)]
    loose = [path] if path.is_file() else _images_in(path)
    if bool(samples) == bool(loose):
        raise PredictError(
            f'DATA is "{path}", where there {"are images and folders of images" if loose else "is no image"}; allowed is '
            f'"{run.config.dataset}", the run\'s own, an image, or a folder either of images or with a folder of these per '
            f"class, files in {' '.join(EXTENSIONS)}"
        )
    is_known, folder = bool(samples), path.parent if path.is_file() else path
    if not is_known:
        class_names, samples = list(run.facts.class_names), [(str(file), 0, TEST) for file in loose]
    raw, names = listed(folder, samples, class_names), [os.path.relpath(file, folder) for file, _, _ in samples]
    images, about = _like_the_runs(raw, names, run)
    if not is_known:
        return _Shown(images, names, torch.zeros_like(images.test), "", about)
    scored, which = _to_score(run, path, raw, TEST in parts)
    return _Shown(images, names, scored, which, about)


def _in_memory(run: TrainedRun, raw: Raw) -> _Shown:
    assert isinstance(raw, RawImages)
    names = [str(number) for number in range(len(raw.labels))]
    images, about = _like_the_runs(raw, names, run)
    return _Shown(images, names, torch.zeros_like(images.test), "", about)


def _like_the_runs(raw: RawImages, names: list[str], run: TrainedRun) -> tuple[ClientImages, dict[str, str]]:
    """All images in the shape of the run's and normalised as they were, and what that took."""
    pixels, about = _brought(raw, names, run)
    source = source_of(run.config.dataset)
    images = client_images(
        pixels,
        torch.from_numpy(raw.labels),
        torch.tensor([[False], [False], [True]]).expand(-1, len(names)),
        raw.class_names,
        mean=source.mean if source else USER_MEAN,
        std=source.std if source else USER_STD,
        augments=False,
    )
    return images, about


def _images_in(folder: Path) -> list[Path]:
    """The image files in a folder itself, by name."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if path.suffix.lower() in EXTENSIONS and path.is_file())
    return sorted(path for path in found if not path.name.startswith("."))


def _brought(raw: RawImages, names: list[str], run: TrainedRun) -> tuple[Tensor, dict[str, str]]:
    """All images in the shape of the run's, and what that took."""
    channels, height, width = (int(size) for size in run.facts.shape.split("x"))
    pixels = torch.empty(len(names), channels, height, width, dtype=torch.uint8)
    resized = recoloured = 0
    for index, name in enumerate(names):
        image = raw.read(np.array([index]), 0, 0)
        has_size = image.shape[2:] == (height, width)
        if not has_size and height != width:
            raise PredictError(
                f"image {name} is {image.shape[2]}x{image.shape[3]}, the run's are {height}x{width}; images can be "
                "brought to squares alone"
            )
        resized += not has_size
        recoloured += image.shape[1] != channels
        pixels[index] = brought_to(image, 0 if has_size else height, channels)[0]
    about = {}
    if resized:
        about["sizes"] = f"{resized} of {len(names)} images had another and were brought to {height}x{width}, the run's"
    if recoloured:
        colour = {1: "in colour and were made grey", 3: "grey and were given three channels"}[channels]
        about["channels"] = f"{recoloured} of {len(names)} images were {colour}, as the run's"
    return pixels, about


def _to_score(run: TrainedRun, folder: Path, raw: RawImages, has_test: bool) -> tuple[Tensor, str]:
    """The test images of a folder that has such a part or that a client trained on; of new data all of them."""
    if any(met.owns_data for met in run.clients.values()):
        try:
            own = load_own(folder, image_spec(run.config))
        except DataError:  # no client can have such data
            own = None
        if own is not None and own.digest in {met.digest for met in run.clients.values()}:
            return own.test, "the test images"
    is_test = torch.from_numpy(raw.roles == TEST)
    return (is_test, "the test images") if has_test else (torch.ones_like(is_test), "all images")


def _model(run: TrainedRun, client: int | None, state_path: Path | None, calibrated: bool) -> tuple[ImageNet, str]:
    """The global model, or the one that a client was left with, and which that is in words."""
    model = build_model(model_spec(run.config, run.facts), run.config.seed)
    assert isinstance(model, ImageNet)
    tensors = named_state(model)
    tuned = None if client is None else run.tuned_model(client, state_path)
    if tuned is not None:
        scatter(tuned[0], tensors, None)
        return model, f"client {client}'s own, fine-tuned after round {tuned[1]}"
    if run.config.row.own_model and client is not None:
        _copy(_of_model(run.shared.sent_to(client) | run.fixed, tensors), tensors)
        arrays, stamp = run.personal_state(client, state_path)
        kept = {name.removeprefix(PARAMETER): array for name, array in arrays.items() if name.startswith(PARAMETER)}
        own = learner_class(run.config.row).restored(model, kept)
        assert isinstance(own, ImageNet)
        return own, f"client {client}'s own, after round {stamp}"
    personal = {name: tensor for name, tensor in tensors.items() if run.config.row.is_personal(name)}
    which, sent = "global", run.shared.global_model() | run.fixed
    if client is not None and not run.shared.is_global:
        which, sent = f"client {client}'s own", _of_model(run.shared.sent_to(client) | run.fixed, tensors)
    check_arrays(sent, {name: tensor.detach().numpy() for name, tensor in tensors.items() if name not in personal})
    _copy(sent, tensors)
    if personal and client is not None:
        arrays, stamp = run.personal_state(client, state_path)
        scatter(arrays, personal, None)
        return model, f"global, with the personal parameters of client {client} after round {stamp}"
    if client is not None and run.fine_tunes:
        raise run.not_here("fine-tuned model", client, state_path, "fine-tunes the global model at each client")
    if not (calibrated and run.calibrated):
        return model, which
    check_arrays(run.calibrated, {name: tensors[name].detach().numpy() for name in run.calibrated.keys() & tensors})
    _copy(run.calibrated, tensors)
    return model, "global, with the calibrated classifier"


def _of_model(sent: Arrays, tensors: dict[str, Tensor]) -> Arrays:
    """Of what a client is sent the parameters alone."""
    return {name: array for name, array in sent.items() if name in tensors}


def _copy(arrays: Arrays, tensors: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, array in arrays.items():
            tensors[name].copy_(torch.from_numpy(array))

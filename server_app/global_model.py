"""The global model at the server, scored on test images that no client has."""

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.server_app.federation import Federation
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.model_state import named_state
from curvfed.strategies.config.device import pick_device, placed
from curvfed.strategies.config.image_data import image_spec
from curvfed.strategies.config.model_spec import build_model, fixed_head, has_fixed_head, model_spec
from curvfed.strategies.config.run_config import RunConfig, home
from curvfed.tasks.atomic_file import write_atomically
from curvfed.tasks.errors import DataError
from curvfed.tasks.heads import PoincareHead
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.client_task import evaluate
from curvfed.tasks.images.data import load_test, load_test_folder
from curvfed.tasks.images.models import ImageNet

log = logging.getLogger("curvfed")

SHOWN_FEATURES = 2000
"""Test images whose features the report draws."""


def fixed_parameters(config: RunConfig, federation: Federation) -> Arrays:
    """What the server fixes once for all clients; nothing for most methods."""
    if config.row.head_from != "server" or not has_fixed_head(config):
        return {}
    if config.row.head != "linear":
        log.info("spreading the prototypes of %d classes", len(federation.facts.class_names))
    return fixed_head(model_spec(config, federation.facts), config.seed)


class GlobalModel:
    """The model that all clients have in common, where there is one, on the test images, where there are any.

    Parameters
    ----------
    config : RunConfig
        Settled.
    federation : Federation
    is_global : bool
        Whether there is such a model, whatever of it stays with the clients.

    Raises
    ------
    ConfigError
        If the test data are named and cannot be read or have other classes or another shape.
    """

    def __init__(self, config: RunConfig, federation: Federation, is_global: bool) -> None:
        self._facts, self._space = federation.facts, config.row.head
        self._test = _test_images(config, federation)
        if self._test is not None and not is_global:
            log.info("global accuracy: none, for every client has a model of its own")
            self._test = None
        if self._test is None:
            return
        self._device = pick_device(config.device)
        model = placed(build_model(model_spec(config, federation.facts), config.seed), self._device)
        names = list(named_state(model))
        if any(config.row.is_personal(name) for name in names):
            log.info("global accuracy: none, for parts of the model stay with the clients")
            self._test = None
        assert isinstance(model, ImageNet)
        self._model = model

    @property
    def is_scored(self) -> bool:
        """Whether there is such a model and such data."""
        return self._test is not None

    def score(self, arrays: Arrays) -> float | None:
        """Share of the test images that the model of all these arrays gets right; None where there is nothing to score."""
        if self._test is None:
            return None
        labels, predicted, _ = self._run(arrays)
        return float((labels == predicted).mean())

    def write(self, arrays: Arrays, calibrated: Arrays, folder: Path) -> None:
        """`global_test.npz`: labels, predictions (-1 where not finite), features of some images, and the prototypes, which
        are what the features were trained towards, before any calibration."""
        if self._test is None:
            return
        self._load(arrays)
        head = self._model.head
        # Another package's network has no classifier apart from it.
        weight = dict(head.named_parameters()).get("weight", torch.zeros(0, len(self._facts.class_names)))
        prototypes = head.prototypes if isinstance(head, PoincareHead) else weight.clone()
        # In an order of their own: in many data sets the first images are all of a class or two.
        order = np.random.default_rng(0).permutation(len(self._test.labels))
        labels, predicted, features = (array[order] for array in self._run(arrays | calibrated))
        content = io.BytesIO()
        np.savez_compressed(
            content,
            labels=labels,
            predicted=predicted,
            features=features[:SHOWN_FEATURES],
            prototypes=prototypes.detach().cpu().numpy(),
            space=np.array("flat" if self._space == "linear" else self._space),
        )
        write_atomically(folder / "global_test.npz", content.getvalue())

    def _load(self, arrays: Arrays) -> None:
        tensors = named_state(self._model)
        with torch.no_grad():
            for name, array in arrays.items():
                tensors[name].copy_(torch.from_numpy(array))

    def _run(self, arrays: Arrays) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        assert self._test is not None
        self._load(arrays)
        found = evaluate(self._model, self._test, self._facts.class_names, self._device)
        labels, predicted, features = (tensor.cpu().numpy() for tensor in found)
        return labels, predicted, features


def _test_images(config: RunConfig, federation: Federation) -> ClientImages | None:
    facts = federation.facts
    if facts.task != "images" or config.test_data == "none":
        return None
    try:
        if config.test_data != "auto":
            test = load_test_folder(Path(config.test_data).expanduser(), image_spec(config), home() / "cache")
        elif all(about.partition_digest for about in federation.descriptions.values()):
            test = load_test(image_spec(config), home() / "cache")
        else:
            log.info("global accuracy: none, for the server has no test data (test-data)")
            return None
    except DataError as error:
        key = "dataset" if config.test_data == "auto" else "test-data"
        raise ConfigError(f'{key} = "{config.dataset if key == "dataset" else config.test_data}": {error}') from None
    unknown = set(test.class_names) - set(facts.class_names)
    if test.shape != facts.shape or unknown:
        what = f"images of {test.shape}" if test.shape != facts.shape else f"classes {sorted(unknown)[:5]}"
        raise ConfigError(
            f'test-data = "{config.test_data}" has {what}; allowed are images of {facts.shape} and the '
            f"{len(facts.class_names)} classes of the clients"
        )
    return test

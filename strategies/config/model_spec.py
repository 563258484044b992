"""The model that configuration and facts describe; server and clients build the same model."""

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.base.named_arrays import HEAD
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.run_config import LORENTZ_MODELS, RunConfig
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks import plugins
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.kinds import KINDS

if TYPE_CHECKING:
    from curvfed.tasks.images.models import ImageModelSpec
    from curvfed.tasks.points.client_task import PointModelSpec

    AnyModelSpec = ModelSpec | ImageModelSpec | PointModelSpec

log = logging.getLogger("curvfed")


def model_spec(
    config: RunConfig, facts: Facts, num_features: int = 1, num_classes: int = 1
) -> "AnyModelSpec":
    """The model that this run trains; `config` has its defaults resolved.

    Parameters
    ----------
    config : RunConfig
    facts : Facts
    num_features, num_classes : int
        Those of the client, if they differ between the clients. The server omits them: the part of
        the model that it holds then does not depend on them.

    Raises
    ------
    ConfigError
        If the task has no such encoder.
    """
    if KINDS[facts.task].has_shape:
        return _image_spec(config, facts)
    if not KINDS[facts.task].models:
        from curvfed.tasks.points.client_task import PointModelSpec

        return PointModelSpec(len(facts.class_names), config.points.curvature)
    kind = encoder(config, facts.task)
    if kind not in KINDS[facts.task].models and not plugins.is_model(kind):
        raise _no_such_model(config, facts)
    options = dict(config.network.options)
    if kind in LORENTZ_MODELS:
        keys = config.table("flatland")
        options["gate"] = keys.gate
        options["self_weight"] = keys.self_weight
        options["curvature_map"] = keys.curvature_map
    if config.embedding_dim == 0:
        raise ConfigError(
            f"embedding-dim = 0: allowed for data of {facts.task} is a width of 1 or more",
            key="embedding-dim-with-dataset",
        )
    return ModelSpec(
        task=facts.task,
        kind=kind,
        num_features=facts.num_features or num_features,
        num_classes=len(facts.class_names) or num_classes,
        width=config.embedding_dim,
        dropout=config.dropout,
        **options,
    )


def encoder(config: RunConfig, task: str, channels: int = 0) -> str:
    """The name of the network that a run trains on this task, for images with this number of
    channels; "" for none."""
    if config.model is not None:
        return config.model
    return KINDS[task].default_model(config.row.space, channels)


def _image_spec(config: RunConfig, facts: Facts) -> "ImageModelSpec":
    from curvfed.tasks.images.models import ImageModelSpec, head_spec

    network = config.network
    channels, height, width = (int(size) for size in facts.shape.split("x"))
    kind = encoder(config, facts.task, channels)
    if kind not in KINDS[facts.task].models and not plugins.is_model(kind):
        raise _no_such_model(config, facts)
    spec = ImageModelSpec(
        kind=kind,
        shape=(channels, height, width),
        norm=config.images.norm,
        embedding_dim=config.embedding_dim,
        num_classes=len(facts.class_names),
        head=network.head,
        fixed=network.head_from != "training",
        **network.options,
    )
    try:
        if kind in KINDS[facts.task].models:
            head_spec(spec)  # refuses an impossible head
    except ValueError as error:
        raise ConfigError(f'method = "{config.method}": {error}', key="head-with-method") from None
    except ImportError as error:
        raise ConfigError(f'model = "{kind}": {error}', key="missing-package") from None
    if network.loss == "triplet" and spec.num_classes < 2:
        raise ConfigError(
            f'method = "{config.method}" needs 2 classes or more; the federation has'
            f" {spec.num_classes}",
            key="too-few-classes",
        )
    return spec


def is_fixed(config: RunConfig, name: str) -> bool:
    """Whether the server sets this parameter once and no round trains it."""
    return name.startswith(HEAD) and config.network.head_from == "server"


def fixed_head(spec: "AnyModelSpec", seed: int) -> dict[str, NDArray[Any]]:
    """The parameters of an image model's fixed head, by their names in the model; empty for other
    models."""
    from curvfed.tasks.heads import head_start
    from curvfed.tasks.images.models import ImageModelSpec, head_spec

    if not isinstance(spec, ImageModelSpec):
        return {}
    return {
        f"{HEAD}{name}": tensor.numpy()
        for name, tensor in head_start(head_spec(spec), seed).items()
    }


def fixed_parameters(config: RunConfig, facts: Facts) -> Arrays:
    """The parameters that the server sets once for all clients; empty for most methods."""
    if config.network.head_from != "server":
        return {}
    if config.network.head != "linear":
        log.info("spreading the prototypes of %d classes", len(facts.class_names))
    return fixed_head(model_spec(config, facts), config.seed)


def client_head(spec: "AnyModelSpec", seed: int, partition: int) -> dict[str, NDArray[Any]]:
    """The parameters of one client's own fixed head."""
    # Torch's generator uses 32 bits of a seed.
    return fixed_head(spec, int(np.random.SeedSequence([seed, partition]).generate_state(1)[0]))


def build_model(spec: "AnyModelSpec", seed: int) -> nn.Module:
    """The model with its seeded initial parameters, which are equal on every machine.

    Raises
    ------
    ConfigError
        If the images are too small for the network, or a package that it needs cannot be imported.
    """
    if isinstance(spec, ModelSpec):
        return spec.build(seed)
    try:
        return spec.build(seed)
    except (ValueError, ImportError) as error:
        raise ConfigError(f'model = "{spec.kind}": {error}', key="impossible-model") from None


def _no_such_model(config: RunConfig, facts: Facts) -> ConfigError:
    names = ", ".join((AUTO, *KINDS[facts.task].models))
    return ConfigError(
        f'model = "{config.model or AUTO}": allowed for data sets of {facts.task} is one of'
        f" {names}",
        key="no-such-model",
    )

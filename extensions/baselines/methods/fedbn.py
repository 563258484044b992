"""FedBN (Li et al., ICLR 2021): FedAvg with batch normalisation kept at each client."""

from collections.abc import Collection

from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.statistics import BUFFERS
from curvfed.strategies.errors import ConfigError


class KeepsBatchNorm(Method):
    """A method with clients that keep all tensors of layers with running statistics."""

    def personal_names(self, names: Collection[str], own_ends: bool = False) -> set[str]:
        """Scales, shifts and running statistics of batch normalisation.

        Raises
        ------
        ConfigError
            If the model lacks such layers.
        """
        layers = tuple(
            name.removesuffix(suffix)
            for name in names
            for suffix in BUFFERS
            if name.endswith(f".{suffix}")
        )
        if not layers:
            raise ConfigError(
                'method = "fedbn" keeps batch normalisation at each client, and this model has'
                " none; allowed is a model with such layers: convnet, resnet18, resnet18-7x7,"
                " vgg13, mobilenetv2, senet18, or another package's",
                key="no-batch-norm",
            )
        return {name for name in names if name.startswith(layers)}


METHODS = {
    "fedbn": KeepsBatchNorm(
        "fedavg whose batch normalisation stays at each client (Li et al., 2021)",
        space="flat",
        # Names in lists of kept parameters; the layers with such names stay whole.
        personal=("*.running_mean", "*.running_var"),
        network=Network(options={"norm": "batch"}),
        tasks=IMAGES,
        settings={"images": {"model": "convnet"}},
    ),
}

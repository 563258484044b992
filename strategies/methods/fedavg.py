"""FedAvg (McMahan et al., AISTATS 2017), and FedAvg with personal biases."""

from curvfed.strategies.base.method import GRAPHS, IMAGES, Method

METHODS = {
    "fedavg": Method(
        "flat network, such as GCN, GIN or a convolutional net, all parameters averaged (McMahan et al., 2017)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
    ),
    "fedavg-bias": Method("fedavg whose biases stay: the Euclidean control for m", space="flat", personal=("*.bias",)),
}

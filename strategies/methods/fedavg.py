"""FedAvg (McMahan et al., AISTATS 2017), and FedAvg with personal biases."""

from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method

METHODS = {
    "fedavg": Method(
        "flat network, such as GCN, GIN, a convolutional net or a logistic model, averaged (McMahan"
        " et al., 2017)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES, *POINTS),
    ),
    "fedavg-bias": Method(
        "fedavg whose biases stay: the Euclidean control for m", space="flat", personal=("*.bias",)
    ),
}

"""FedAvg (McMahan et al., AISTATS 2017), and FedAvg with personal biases."""

from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method

METHODS = {
    "fedavg": Method(
        "average of flat networks: GCN, GIN, convolutional nets, logistic models (McMahan et al.,"
        " 2017)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES, *POINTS),
    ),
    "fedavg-bias": Method(
        "fedavg with personal biases: the flat control for FlatLand's personal column m",
        space="flat",
        personal=("*.bias",),
    ),
}

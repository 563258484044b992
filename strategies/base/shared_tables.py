"""The tables of keys that methods share, those of aggregations too, and all of them by name."""

from typing import Annotated, Literal

from pydantic import Field

from curvfed.strategies.base.keys import Form, Rate, Table

Name = Annotated[
    str,
    Form(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$",
        words=(
            "a name of up to 128 letters (A to Z, a to z), digits and . _ -, the first a letter or"
            ' a digit, or ""'
        ),
    ),
]
Experiment = Annotated[str, Form(pattern=r"^.+$", words="a line of text, not empty")]

FLOWER: dict[str, tuple[str, ...]] = {
    "flower:FedAdagrad": ("eta", "tau"),
    "flower:FedAdam": ("eta", "beta_1", "beta_2", "tau"),
    "flower:FedAvgM": ("server_learning_rate", "server_momentum"),
    "flower:FedYogi": ("eta", "beta_1", "beta_2", "tau"),
    "flower:FedMedian": (),
    "flower:FedTrimmedAvg": ("beta",),
    "flower:Krum": ("num_malicious_nodes",),
    "flower:MultiKrum": ("num_malicious_nodes", "num_nodes_to_select"),
    "flower:Bulyan": ("num_malicious_nodes",),
    "flower:QFedAvg": ("client_learning_rate", "q"),
}
"""Arguments of each strategy's class that are keys here, by the strategy's name."""

NEED_ONLY_MEAN = ("flower:FedAdagrad", "flower:FedAdam", "flower:FedAvgM", "flower:FedYogi")
"""The strategies that use only the mean of the clients' parameters."""


GROUP_SIZE = 5
"""Default of the smallest size of a group of a secure sum: with the server, all members but one can
compute the vector of the last one."""


class Images(Table):
    """Keys of image data and networks."""

    of_data = ("train_subset", "test_subset", "pooled", "classes_at")

    size: int | None = Field(default=None, ge=1, le=1024)
    """height and width that images are resized to; auto: unchanged, if all have one size, and 224
    with images.encoder"""
    channels: Literal[1, 3] | None = None
    """1: grey, 3: colour; auto: those of the files, colour if any file is in colour"""
    bits: int | None = Field(default=None, ge=8, le=16)
    """bits of white in files with 16 bits per channel, such as 12 for values up to 4095; a higher
    value is an error. auto: 8, 12 or 16, by the highest value of a node's images; the nodes of a
    run must have one number, with which predict reads new images too"""
    encoder: Name = ""
    """train on features of a frozen network in place of pixels: a file of weights of a classifier
    of torchvision by its published name without .pth, such as resnet18-f37072fd, with the first
    digits of its SHA-256. The file is in ~/curvfed/encoders or in torch's folder of downloads,
    wherever images are read; the features are those before its last layer. Another package adds
    networks by the group curvfed.image-encoders. Empty: pixels"""
    norm: Literal["group", "batch", "none"] = "group"
    """normalisation layers of the networks that have any (all but cnn). Running statistics of batch
    normalisation are averaged with the parameters"""
    augment: Literal["crop-flip", "none"] | None = None
    """shift training images by up to 4 pixels and mirror them at random; auto: for cifar10,
    cifar100 and tinyimagenet"""
    train_subset: int | None = Field(default=None, ge=1)
    """number of training images, drawn by the seed, that are partitioned among the clients; auto:
    all"""
    test_subset: int | None = Field(default=None, ge=1)
    """number of test images, drawn by the seed, that score the global model; auto: all"""
    pooled: bool = False
    """partition the data set's test images among the clients, too; each holds out test-size of its
    share, and the server gets none. Refused for nodes with a test part in their own images"""
    classes_at: int | None = Field(default=None, ge=1, le=20)
    """level of the folders that are the classes, below the folder of images: 1 for FOLDER/CLASS, 2
    for FOLDER/SITE/CLASS or FOLDER/train/CLASS; auto: by the names and contents of the folders"""


class Points(Table):
    """Keys of data sets of points."""

    retired = (("lacking", 0),)
    of_data = (
        "classes",
        "label_key",
        "split_seed",
        "hold_out",
        "num",
        "sample_radius",
        "reference",
        "margin",
    )

    curvature: Rate = Field(default=-1.0, lt=0)
    """curvature of the disc of the points; its radius is 1/sqrt(-curvature)"""
    classes: str = ""
    """names of the classes to use, separated by commas, such as 0,2,3; quote a name with a comma;
    empty: all"""
    embedding_key: str = "X_poincare"
    """entry of obsm with the two coordinates, in an .h5ad file"""
    label_key: str = "label"
    """column of obs with the classes, in an .h5ad file; column of a table"""
    split_seed: int | None = Field(default=None, ge=0, lt=2**31)
    """seed of the split into training and test points; auto: the run's. Refused by real nodes with
    data of their own"""
    hold_out: Literal["test", "validation"] = "test"
    """the points that score a run: test: the test points; validation: test-size of the training
    points, and the test points are left out, as when `curvfed compare` chooses configurations"""
    num: int = Field(default=20_000, ge=2, le=100_000_000)
    """number of points of uniform before the margin is cleared"""
    sample_radius: float = Field(default=0.95, gt=0, lt=1)
    """R of uniform: the Euclidean radius of its points, as a share of the disc's"""
    reference: float = Field(default=0.5, ge=0, lt=1)
    """mu of uniform: the norm of the reference point between its two classes, as a share of R"""
    margin: Rate = Field(default=0.1, ge=0)
    """gamma of uniform: points closer to the hyperplane between the classes are removed"""


class Secure(Table):
    """Keys of secure sums."""

    group_size: int | None = Field(default=None, ge=2)
    """minimum number of clients that are summed together in a simulation; real nodes are summed in
    the groups of their roster. A group sums with all its members or not at all; auto: groups of 5
    to 9, and with dp.unit all clients together
    """
    patience: Rate = Field(default=1800.0, ge=0)
    """seconds that a sum waits for members that are away; then the round ends without their group,
    or the run stops if it is the only one
    """
    min_holders: int | None = Field(default=None, ge=1)
    """minimum number of members of a sum that have a class or an entity of links; with fewer,
    values computed from it stay at these clients; auto: that of the nodes' policies, where the
    default is 3, or all members of a smaller group; in a simulation 1. The highest counts"""
    clip: Rate = Field(default=1000.0, ge=1e-3, le=1e6)
    """maximum norm of a client's update in a secure average; longer updates are shortened to it,
    and the log reports them"""


class MLflow(Table):
    """Keys of the sink mlflow."""

    tracking_uri: str = ""
    """address of MLflow's server or database, without a password; empty: the variable
    MLFLOW_TRACKING_URI at the server, or else mlflow.db in results-dir"""
    experiment: Experiment = "curvfed"
    """the experiment of the run, created if absent"""


class WandB(Table):
    """Keys of the sink wandb."""

    project: Experiment = "curvfed"
    """the project of the run"""
    mode: Literal["offline", "online"] = "offline"
    """offline: figures stay in the run directory until `wandb sync` sends them; online: they are
    sent during the run, to the account that is logged in at the server"""


class Flower(Table):
    """Keys of Flower's strategies, named after their arguments; auto is Flower's default."""

    eta: Rate | None = Field(default=None, gt=0)
    """the server's learning rate, for FedAdagrad, FedAdam and FedYogi; auto: Flower's default"""
    beta_1: Rate | None = Field(default=None, ge=0, lt=1)
    """decay of the first moment, for FedAdam and FedYogi"""
    beta_2: Rate | None = Field(default=None, ge=0, lt=1)
    """decay of the second moment, for FedAdam and FedYogi"""
    tau: Rate | None = Field(default=None, gt=0)
    """added to the root of the second moment, for FedAdagrad, FedAdam and FedYogi"""
    server_learning_rate: Rate | None = Field(default=None, gt=0)
    """the server's learning rate, for FedAvgM; 1 moves the model to the average"""
    server_momentum: Rate | None = Field(default=None, ge=0, lt=1)
    """the server's momentum, for FedAvgM"""
    beta: Rate | None = Field(default=None, ge=0, lt=0.5)
    """share of the clients left out at either end, for FedTrimmedAvg"""
    num_malicious_nodes: int | None = Field(default=None, ge=0, le=1_000_000)
    """number of clients that may lie, for Krum, MultiKrum and Bulyan; Bulyan needs 4 times this
    number of replies plus 3"""
    num_nodes_to_select: int | None = Field(default=None, ge=1, le=1_000_000)
    """number of models that MultiKrum averages"""
    client_learning_rate: Rate | None = Field(default=None, gt=0)
    """1 / L, the clients' learning rate, for QFedAvg; auto: the learning-rate"""
    q: Rate | None = Field(default=None, ge=0)
    """how much more a client with a large loss weighs, for QFedAvg; 0: no more"""


SHARED: dict[str, type[Table]] = {
    "images": Images,
    "points": Points,
    "secure": Secure,
    "flower": Flower,
    "mlflow": MLflow,
    "wandb": WandB,
}
"""All of these tables, by name."""

"""The tables of keys that belong to no method: those of data, secure sums, Flower's strategies and
sinks."""

from typing import Annotated, Literal

from pydantic import Field

from curvfed.strategies.base.keys import Form, Rate, Table

Experiment = Annotated[str, Form(pattern=r"^.+$", words="a line of text, not empty")]

FlowerName = Literal[
    "flower:FedAdagrad",
    "flower:FedAdam",
    "flower:FedAvgM",
    "flower:FedYogi",
    "flower:FedMedian",
    "flower:FedTrimmedAvg",
    "flower:Krum",
    "flower:MultiKrum",
    "flower:Bulyan",
    "flower:QFedAvg",
]

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


class Flower(Table):
    """Keys of Flower's strategies, named after their arguments; auto is Flower's default."""

    eta: Rate | None = Field(
        default=None,
        gt=0,
        description=(
            "the server's learning rate, of FedAdagrad, FedAdam and FedYogi; auto: Flower's own"
        ),
    )
    beta_1: Rate | None = Field(
        default=None, ge=0, lt=1, description="of FedAdam and FedYogi: decay of the first moment"
    )
    beta_2: Rate | None = Field(
        default=None, ge=0, lt=1, description="of FedAdam and FedYogi: decay of the second moment"
    )
    tau: Rate | None = Field(
        default=None,
        gt=0,
        description="of FedAdagrad, FedAdam and FedYogi: added to the root of the second moment",
    )
    server_learning_rate: Rate | None = Field(
        default=None, gt=0, description="of FedAvgM; 1 goes all the way to the average"
    )
    server_momentum: Rate | None = Field(default=None, ge=0, lt=1, description="of FedAvgM")
    beta: Rate | None = Field(
        default=None,
        ge=0,
        lt=0.5,
        description="of FedTrimmedAvg: the share of the clients left out at either end",
    )
    num_malicious_nodes: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description=(
            "of Krum, MultiKrum and Bulyan: how many clients may lie. Bulyan needs 4 times as many"
            " replies and 3"
        ),
    )
    num_nodes_to_select: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="of MultiKrum: how many clients' models are averaged",
    )
    client_learning_rate: Rate | None = Field(
        default=None,
        gt=0,
        description="of QFedAvg: 1 / L, the clients' learning rate; auto: this run's learning-rate",
    )
    q: Rate | None = Field(
        default=None,
        ge=0,
        description="of QFedAvg: how much more a client of large loss weighs; 0: no more",
    )


class Images(Table):
    """Keys of image data and networks."""

    size: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description=(
            "height and width that every image is brought to; auto: as they are, all of one size"
        ),
    )
    channels: Literal[1, 3] | None = Field(
        default=None,
        description="1: grey, 3: colour; auto: as the files are, colour if any of them is",
    )
    norm: Literal["group", "batch", "none"] = Field(
        default="group",
        description=(
            "normalisation layers of the networks that have any (all but cnn). Running statistics"
            " of batch normalisation are averaged with the parameters"
        ),
    )
    augment: Literal["crop-flip", "none"] | None = Field(
        default=None,
        description=(
            "training images are shifted by up to 4 pixels and mirrored at random; auto: for"
            " cifar10, cifar100 and tinyimagenet"
        ),
    )
    train_subset: int | None = Field(
        default=None,
        ge=1,
        description=(
            "so many of the training images, drawn by the seed, are dealt to the clients; auto: all"
        ),
    )
    test_subset: int | None = Field(
        default=None,
        ge=1,
        description=(
            "so many of the test images, drawn by the seed, score the global model; auto: all"
        ),
    )


class Points(Table):
    """Keys of data sets of points."""

    curvature: Rate = Field(
        default=-1.0,
        lt=0,
        description="of the disc that the points lie in, whose radius is 1/sqrt(-curvature)",
    )
    classes: str = Field(
        default="",
        description=(
            "names of the classes to keep, separated by commas, such as 0,2,3; a name with a comma"
            " stands in quotes; empty: all"
        ),
    )
    embedding_key: str = Field(
        default="X_poincare",
        description="where an .h5ad file has the coordinates: an entry of obsm with two columns",
    )
    label_key: str = Field(
        default="label",
        description=(
            "where an .h5ad file has the classes: a column of obs; in a table the column's name"
        ),
    )
    split_seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**31,
        description="seed of the split into training and test points; auto: the run's",
    )
    lacking: int = Field(
        default=0,
        ge=0,
        description=(
            "so many of the simulated clients get no points of one class each, drawn by the seed;"
            " the others do"
        ),
    )
    num: int = Field(
        default=20_000,
        ge=2,
        le=100_000_000,
        description="points of uniform before the margin is cleared",
    )
    sample_radius: float = Field(
        default=0.95,
        gt=0,
        lt=1,
        description="R of uniform as a share of the disc's radius, a Euclidean norm",
    )
    reference: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="mu of uniform: the norm of the reference point of its two classes over R",
    )
    margin: Rate = Field(
        default=0.1,
        ge=0,
        description=(
            "gamma of uniform: points this near to the hyperplane of the classes are removed"
        ),
    )


class Secure(Table):
    """Keys of secure sums."""

    threshold: int | None = Field(
        default=None,
        ge=2,
        description=(
            "clients that must be there to the end, or nothing is revealed; more than half of those"
            " asked. auto: two thirds, rounded up"
        ),
    )
    neighbours: int | None = Field(
        default=None,
        ge=1,
        description=(
            "clients that each client shares masks and secrets with; auto: all up to 64 clients,"
            " and a number that grows as their logarithm beyond. Without a roster always all"
        ),
    )
    fixed_groups: bool = Field(
        default=False,
        description=(
            "whether the clients sum in groups of 5 to 9 that never change; a group with a member"
            " missing is left out of the round. It protects over many rounds, where cohorts that"
            " differ tell more than each one"
        ),
    )
    clip: Rate = Field(
        default=1000.0,
        ge=1e-3,
        le=1e6,
        description=(
            "longest update of a client in a secure average, as a norm; a longer one is shortened"
            " to it, which the log tells"
        ),
    )


class MLflow(Table):
    """Keys of the sink mlflow."""

    tracking_uri: str = Field(
        default="",
        description=(
            "address of MLflow's server or database, without a password; empty: that of the"
            " variable MLFLOW_TRACKING_URI where the server runs, or else mlflow.db in results-dir"
        ),
    )
    experiment: Experiment = Field(
        default="curvfed",
        description="the experiment that the run belongs to; made if it is not there",
    )


SHARED: dict[str, type[Table]] = {
    "images": Images,
    "points": Points,
    "secure": Secure,
    "flower": Flower,
    "mlflow": MLflow,
}
"""All of them, by name."""

"""Keys of the data, and of secure sums, which many methods share."""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table


class Images(Table):
    """Keys of image data and networks."""

    size: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="height and width that every image is brought to; auto: as they are, all of one size",
    )
    channels: Literal[1, 3] | None = Field(
        default=None, description="1: grey, 3: colour; auto: as the files are, colour if any of them is"
    )
    norm: Literal["group", "batch", "none"] = Field(
        default="group",
        description="normalisation layers of the networks that have any (all but cnn). Running statistics of batch "
        "normalisation are averaged with the parameters",
    )
    augment: Literal["crop-flip", "none"] | None = Field(
        default=None,
        description="training images are shifted by up to 4 pixels and mirrored at random; auto: for cifar10, cifar100 "
        "and tinyimagenet",
    )
    train_subset: int | None = Field(
        default=None,
        ge=1,
        description="so many of the training images, drawn by the seed, are dealt to the clients; auto: all",
    )
    test_subset: int | None = Field(
        default=None,
        ge=1,
        description="so many of the test images, drawn by the seed, score the global model; auto: all",
    )


class Points(Table):
    """Keys of data sets of points."""

    curvature: Rate = Field(
        default=-1.0, lt=0, description="of the disc that the points lie in, whose radius is 1/sqrt(-curvature)"
    )
    classes: str = Field(
        default="", description="comma-separated names of the classes to keep, such as 0,2,3; empty: all"
    )
    embedding_key: str = Field(
        default="X_poincare", description="where an .h5ad file has the coordinates: an entry of obsm with two columns"
    )
    label_key: str = Field(
        default="label", description="where an .h5ad file has the classes: a column of obs; in a .csv the column's name"
    )
    split_seed: int | None = Field(
        default=None, ge=0, lt=2**31, description="seed of the split into training and test points; auto: the run's"
    )
    lacking: int = Field(
        default=0,
        ge=0,
        description="so many of the simulated clients get no points of one class each, drawn by the seed; the others do",
    )
    num: int = Field(default=20_000, ge=2, le=100_000_000, description="points of uniform before the margin is cleared")
    sample_radius: float = Field(
        default=0.95, gt=0, lt=1, description="R of uniform as a share of the disc's radius, a Euclidean norm"
    )
    reference: float = Field(
        default=0.5, ge=0, lt=1, description="mu of uniform: the norm of the reference point of its two classes over R"
    )
    margin: Rate = Field(
        default=0.1, ge=0, description="gamma of uniform: points this near to the hyperplane of the classes are removed"
    )


class Secure(Table):
    """Keys of secure sums."""

    threshold: int | None = Field(
        default=None,
        ge=2,
        description="clients that must be there to the end, or nothing is revealed; more than half of those asked. "
        "auto: two thirds, rounded up",
    )
    neighbours: int | None = Field(
        default=None,
        ge=1,
        description="clients that each client shares masks and secrets with; auto: all up to 64 clients, and a number that "
        "grows as their logarithm beyond",
    )
    clip: Rate = Field(
        default=1000.0,
        ge=1e-3,
        le=1e6,
        description="largest value of a parameter in a secure average; larger ones are clipped, which the log tells",
    )

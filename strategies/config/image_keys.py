"""The tables of the run configuration for images and for the methods that work on them."""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table


class Images(Table):
    """Keys of image data and networks."""

    size: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="height and width that every image is brought to; 0: as they are, which must then all be of one size",
    )
    channels: Literal[0, 1, 3] = Field(
        default=0, description="1: grey, 3: colour, 0: as the files are, colour if any of them is"
    )
    norm: Literal["group", "batch", "none"] = Field(
        default="group",
        description="normalisation layers of the networks that have any (all but cnn). Running statistics of batch "
        "normalisation are averaged with the parameters",
    )
    augment: Literal["auto", "crop-flip", "none"] = Field(
        default="auto",
        description="training images are shifted by up to 4 pixels and mirrored at random; auto: for cifar10, cifar100 "
        "and tinyimagenet",
    )
    train_subset: int = Field(
        default=0,
        ge=0,
        description="so many of the training images, drawn by the seed, are dealt to the clients; 0: all",
    )
    test_subset: int = Field(
        default=0, ge=0, description="so many of the test images, drawn by the seed, score the global model; 0: all"
    )


class HyperFed(Table):
    """Keys of HyperFed and its ablations."""

    slope: Rate = Field(
        default=0.9,
        gt=0,
        le=0.99999,
        description="s, the Euclidean norm that the prototypes are contracted to; 1 would be the boundary, infinitely far, "
        "and float32 tells no more norms apart soon before it",
    )
    margin: Rate = Field(
        default=3.0,
        ge=0,
        description="m of the triplet loss, a hyperbolic distance. A loss of 0 needs m at most the least distance of two "
        "prototypes",
    )
    negatives: Literal["one", "all"] = Field(
        default="one",
        description="prototypes of other classes that an image is pushed from in a step: one drawn at random, as "
        "published, or the mean over all",
    )
    mixup: Rate = Field(
        default=0.0,
        ge=0,
        description="weight of a mixup cross-entropy on cosine logits, which the authors' code adds with 2 and the paper "
        "does not have",
    )
    deviations: Literal["unit", "raw"] = Field(
        default="unit",
        description="what consistent aggregation seeks the point of least norm among: the clients' deviations at unit "
        "length, as in the authors' code, or raw, as in the paper, where the smallest win",
    )
    radius: Rate = Field(
        default=0.2,
        ge=0,
        description="how far, over the number of clients K, a client's weight may lie from its share of the examples: "
        "0 is averaging, K or more is unbounded as in the paper",
    )


class SphereFed(Table):
    """Keys of SphereFed."""

    head: Literal["orthonormal", "uniform", "random", "trained"] = Field(
        default="orthonormal",
        description="the classifier: fixed with orthonormal rows (uniformly spread ones where there are more classes than "
        "dimensions), fixed and uniformly spread, fixed at random, or trained and averaged with the rest",
    )
    normalize: bool = Field(default=True, description="bring features to unit length")
    loss: Literal["mse", "cross-entropy"] = Field(
        default="mse", description="squared error to the one-hot label, or cross-entropy at the temperature"
    )
    temperature: Rate = Field(
        default=10.0, gt=0, description="tau, which multiplies the cosines under cross-entropy; of no account under mse"
    )
    mu: Rate = Field(default=0.0, ge=0, description="mu of FedProx's term, to have FedProx as the base algorithm")
    ridge: Rate = Field(
        default=0.0,
        ge=0,
        description="lambda times the number of examples that the calibration adds to the diagonal; 0: the pseudo-inverse",
    )

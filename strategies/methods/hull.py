"""One-shot federated classification in the Poincaré disc, from a secure sum of quantised convex
hulls."""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import ONE_SHOT, POINTS, Method


class Keys(Table):
    """Keys of the one-shot protocol."""

    epsilon: Rate = Field(
        default=0.01,
        gt=0,
        description=(
            "largest distance of two points in one quantisation bin; the larger, the less is"
            " revealed"
        ),
    )
    radius: float = Field(
        default=0.999,
        gt=0,
        le=0.9999999,
        description=(
            "R, the Euclidean norm up to which the disc is quantised, as a share of the disc's"
            " radius. It is public: do not take it from the data. Points beyond it are moved onto"
            " it; their client's log tells how many"
        ),
    )
    cap: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description=(
            "largest number of vertices of a hull that leave a client. It is public. A larger hull"
            " is thinned so that it loses the least area. The size of every client's message and"
            " the server's time grow with it"
        ),
    )
    code: Literal["binary", "bose-chowla"] = Field(
        default="binary",
        description=(
            "label code of the hulls that a bin is in: powers of two, which tell any number of"
            " hulls apart, or the published B_h sequences, which tell up to h apart"
        ),
    )
    h: int = Field(
        default=3,
        ge=2,
        le=16,
        description="h of the B_h sequences; a bin that is in more hulls ends the run",
    )
    groups: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description=(
            "number of secure sums, each over its own group of at least 3 clients. A group whose"
            " sum fails or cannot be decoded is left out, so that one client that sends nonsense"
            " spoils its own group alone; but a client's hulls hide among those of its group alone"
        ),
    )
    min_class_size: int = Field(
        default=1,
        ge=1,
        description=(
            "a class of which a client has fewer training points stays there. Of a class of one or"
            " two points, the hull is these points themselves. A node's policy can ask for more"
        ),
    )
    num_classes: int | None = Field(
        default=None,
        ge=2,
        le=10_000,
        description=(
            "public number of classes; auto: as many as the clients together name. If it is given,"
            " real nodes do not tell the names of their classes"
        ),
    )
    grouping: Literal["assignment", "spectral", "kernighan-lin"] = Field(
        default="assignment",
        description=(
            "how the server groups the hulls by class: by assigning the hulls of each client to"
            " different groups, by spectral clustering, or by a balanced bisection (for two classes"
            " only)"
        ),
    )
    classifier: Literal["auto", "depth", "multinomial", "logistic", "lorentz", "svm"] = Field(
        default="auto",
        description=(
            "what the server trains on the hulls: depth, the class whose clients' hulls hold a"
            " point deepest, by the median over the clients; a multinomial model on x and y"
            " (multinomial), on tangent vectors at the origin (logistic) or on Lorentz coordinates"
            " (lorentz); svm, the published one-vs-rest machine in tangent spaces at reference"
            " points; auto: what classifies points drawn within the hulls of left-out clients best,"
            " or depth within the error of that, without clients that look odd beside the others"
        ),
    )
    svm: Literal["soft", "hard"] = Field(
        default="soft", description="margin of the hyperbolic SVM; hard needs no c"
    )
    c: Rate | None = Field(
        default=None,
        gt=0,
        le=1e12,
        description=(
            "C of the soft margin, the paper's lambda; auto: by cross-validation on the hulls"
        ),
    )
    dry_run: bool = Field(
        default=False,
        description="stop after every client has reported how many of its points would leave it",
    )
    switch_labels: bool = Field(
        default=False,
        description="every simulated client permutes the names of its classes, each differently",
    )


METHODS = {
    "hull": Method(
        "one-shot classifier in the Poincaré disc from a secure sum of the clients' quantised"
        " convex hulls",
        space="disc",
        aggregation=ONE_SHOT,
        tasks=POINTS,
        keys={"hull": Keys},
    ),
}

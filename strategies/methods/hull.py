"""One-shot federated classification in the Poincaré disc, from a secure sum of quantised convex hulls."""

from typing import Annotated, Literal

from pydantic import Field

from curvfed.strategies.base.keys import CHOSEN, Form, Rate, Table
from curvfed.strategies.base.method import ONE_SHOT, POINTS, Method

_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?"

BaselineNames = Annotated[
    str,
    Form(
        pattern=r"^(none|all|(fle|cp|ce|ch-cp|ch-ce|logistic)(,(fle|cp|ce|ch-cp|ch-ce|logistic))*)$",
        words='one of "none", "all", or a list of fle, cp, ce, ch-cp, ch-ce, logistic with commas and without spaces',
    ),
]
Numbers = Annotated[
    str,
    Form(
        pattern=rf"^({_NUMBER}(,{_NUMBER})*)?$",
        words='a list of positive numbers with commas and without spaces, such as "0.01,0.1", or ""',
    ),
]


class Keys(Table):
    """Keys of the one-shot protocol."""

    epsilon: Rate = Field(
        default=0.01,
        gt=0,
        description="largest distance of two points in one quantisation bin; the larger, the less is told",
    )
    radius: float = Field(
        default=0.999,
        gt=0,
        le=0.9999999,
        description="R, the Euclidean norm up to which the disc is quantised, as a share of the disc's radius. Public, so "
        "not to be taken from the data; points beyond are moved onto it, which their client's log tells",
    )
    cap: int = Field(
        default=128,
        ge=1,
        le=100_000,
        description="most vertices of one hull that leave a client. Public; a larger hull is thinned where that loses the "
        "least area. What every client sends and the time of the server grow with it",
    )
    code: Literal["binary", "bose-chowla"] = Field(
        default="binary",
        description="codes of the hulls that add up in a bin: powers of two, of which every sum can be told apart, or the "
        "published B_h sequences, of which sums of up to h can",
    )
    h: int = Field(default=3, ge=2, le=16, description="h of the B_h sequences; more hulls in one bin end the run")
    num_classes: int = Field(
        default=CHOSEN,
        ge=2,
        le=10_000,
        description="number of classes, public; auto: as many as the clients name between them. Where it is given, real "
        "nodes do not tell the names of their classes",
    )
    grouping: Literal["assignment", "spectral", "kernighan-lin"] = Field(
        default="assignment",
        description="how the server finds which hulls are of one class: by assigning the hulls of each client one to one, "
        "by spectral clustering, or by a balanced bisection (two classes alone)",
    )
    classifier: Literal["svm", "logistic"] = Field(
        default="svm",
        description="what the server trains on the hulls: svm, the published one-vs-rest in tangent spaces at reference "
        "points, or logistic, a multinomial model in the one at the origin",
    )
    svm: Literal["soft", "hard"] = Field(default="soft", description="margin of the hyperbolic SVM; hard needs no c")
    c: Rate = Field(
        default=CHOSEN,
        gt=0,
        description="C of the soft margin, the paper's lambda; auto: by cross-validation on the hulls",
    )
    dry_run: bool = Field(
        default=False, description="stop after every client has reported how many of its points would leave it"
    )
    switch_labels: bool = Field(
        default=False, description="simulated clients mix up the names of their classes, each in its own way"
    )
    baselines: BaselineNames = Field(
        default="fle",
        description="what is trained beside it, comma-separated: fle, a Euclidean SVM on the same hulls; in "
        "simulation, where the points can be pooled, centralised Poincaré (cp) and Euclidean (ce) SVMs, the same on hulls "
        "(ch-cp, ch-ce), and a logistic model on tangent vectors at the origin (logistic); or all, or none",
    )
    sweep: Numbers = Field(
        default="",
        description="comma-separated epsilons to repeat a simulation with, for the curves of the report; empty: none",
    )

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Those of `sweep`, each once, ascending."""
        return tuple(sorted({float(one) for one in self.sweep.split(",") if one}))


METHODS = {
    "hull": Method(
        "one-shot SVM in the Poincaré disc from a secure sum of the clients' quantised convex hulls",
        space="disc",
        aggregation=ONE_SHOT,
        tasks=POINTS,
        keys={"hull": Keys},
    ),
}

"""The tables of the run configuration for points in the Poincaré disc, for hull, and for secure sums."""

from typing import Annotated, Literal

from pydantic import Field

from curvfed.strategies.base.keys import Form, Rate, Table

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
    split_seed: int = Field(
        default=-1, ge=-1, lt=2**31, description="seed of the split into training and test points; -1: the run's"
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


class Hull(Table):
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
        default=0,
        ge=0,
        le=10_000,
        description="number of classes, public; 0: as many as the clients name between them. Where it is given, real nodes "
        "do not tell the names of their classes",
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
        default=0.0, ge=0, description="C of the soft margin, the paper's lambda; 0: by cross-validation on the hulls"
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


class Secure(Table):
    """Keys of secure sums."""

    threshold: int = Field(
        default=0,
        ge=0,
        description="clients that must be there to the end, or nothing is revealed; more than half of those asked. "
        "0: two thirds, rounded up",
    )
    neighbours: int = Field(
        default=0,
        ge=0,
        description="clients that each client shares masks and secrets with; 0: all up to 64 clients, with more a number "
        "that grows as their logarithm",
    )
    clip: Rate = Field(
        default=1000.0,
        ge=1e-3,
        le=1e6,
        description="largest value of a parameter in a secure average; larger ones are clipped, which the log tells",
    )

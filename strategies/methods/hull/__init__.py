"""One-shot federated classification in the Poincaré disc, from a secure sum of quantised convex
hulls."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import POINTS, OneShot
from curvfed.strategies.base.shared_tables import Points
from curvfed.strategies.errors import ConfigError

if TYPE_CHECKING:
    from curvfed.strategies.hull.codec import PublicParameters


class Keys(Table):
    """Keys of the one-shot protocol."""

    retired = (("cell", 0.5),)

    resumable: ClassVar[tuple[str, ...]] = ("grouping", "classifier", "svm", "c")

    shared = ("num_classes",)

    epsilon: Rate = Field(default=0.01, gt=0)
    """diameter of a quantisation bin; the larger, the less is revealed"""
    quantiser: Literal["equal-width", "equal-area"] = "equal-width"
    """rings of bins: of equal width (Section 5.2), or of equal area, as many of them (Appendix C):
    the inner ones are then wider, so that bins there exceed hull.epsilon, and the outer ones, where
    most vertices lie, narrower"""
    radius: float = Field(default=0.999, gt=0, le=0.9999999)
    """R, the Euclidean norm up to which the disc is quantised, as a share of the disc's radius. It
    is public: do not derive it from the data. Points beyond R are moved to R, and the client's log
    reports their number"""
    cap: int = Field(default=8, ge=1, le=100_000)
    """maximum number of vertices of a hull that a client sends. It is public. A larger hull is
    thinned with the least loss of area. Message size and the server's time grow with it"""
    code: Literal["binary", "bose-chowla"] = "binary"
    """code of the set of hulls in a bin: powers of two, which separate any number of hulls, or the
    published B_h sequences, which separate up to h"""
    h: int = Field(default=3, ge=2, le=16)
    """h of the B_h sequences; a bin with more hulls stops the run"""
    groups: int = Field(default=1, ge=1, le=10_000)
    """number of secure sums, each over a group of at least 3 clients. A group is left out if its
    sum fails or cannot be decoded, so that a client that sends nonsense spoils only its own group;
    but a client's hulls hide only among those of its group"""
    min_class_size: int = Field(default=1, ge=1)
    """minimum number of training points of a class that a client sends; smaller classes stay at the
    client. The hull of one or two points is these points. A node's policy can set a higher
    minimum"""
    num_classes: int | None = Field(default=None, ge=2, le=10_000)
    """public number of classes; auto: the number of names that the clients report. If it is given,
    real nodes do not report the names of their classes"""
    grouping: Literal["assignment", "spectral", "kernighan-lin"] = "assignment"
    """how the server groups the hulls by class: assignment: the hulls of each client go to
    different groups; spectral clustering; or a balanced bisection (only for two classes)"""
    classifier: Literal["auto", "depth", "multinomial", "logistic", "lorentz", "svm"] = "auto"
    """the classifier that the server trains on the hulls: depth: the class that contains a point
    deepest in its hulls, by the median over the clients; a multinomial model on x and y
    (multinomial), on tangent vectors at the origin (logistic) or on Lorentz coordinates (lorentz);
    svm: the published one-vs-rest SVM in tangent spaces at reference points; auto: the classifier
    with the best leave-one-client-out accuracy on points drawn within the hulls, outlying clients
    excluded, or depth if it is within the error of the best"""
    svm: Literal["soft", "hinge", "hard"] = "soft"
    """margin of the hyperbolic SVM: soft: with the squared hinge, as in the authors' code; hinge:
    with the plain hinge of Eq. 7; hard: Eq. 6, which ignores c"""
    c: Rate | None = Field(default=None, gt=0, le=1e12)
    """C of the soft margin, the paper's lambda; auto: by cross-validation on the hulls"""
    dry_run: bool = False
    """stop after every client has reported how many of its points the run would reveal"""
    switch_labels: bool = False
    """permute the names of the classes at every simulated client, each differently"""

    def public(self, points: Points, num_classes: int, clients: int) -> "PublicParameters":
        """The public parameters of a sum over this number of clients.

        Raises
        ------
        ConfigError
            If they are out of range or do not fit together.
        """
        # This takes torch, which takes seconds to import.
        from curvfed.strategies.hull.codec import PublicParameters

        try:
            radius = self.radius / (-points.curvature) ** 0.5
            return PublicParameters(
                curvature=points.curvature,
                radius=radius,
                epsilon=self.epsilon,
                num_classes=num_classes,
                num_clients=clients,
                cap=self.cap,
                code=self.code,
                h=self.h,
                equal_area=self.quantiser == "equal-area",
            )
        except ValueError as error:
            raise ConfigError(str(error), key="hull-parameters") from None

    def conflicts_with(self, points: Points, num_kept: int) -> Iterator[tuple[str, str]]:
        """The keys that do not fit together, separated by spaces, and the allowed values.

        Parameters
        ----------
        points : Points
        num_kept : int
            Number of classes that points.classes keeps; 0 for all.
        """
        from curvfed.geometry.quantizer import PoincareQuantizer

        for key, number in (("hull.num-classes", self.num_classes), ("points.classes", num_kept)):
            if number is not None and number > 2 and self.grouping == "kernighan-lin":
                yield f"hull.grouping {key}", "2 classes"
        if self.svm == "hard" and self.c is not None:
            yield "hull.svm hull.c", "hull.c = auto, for a hard margin has no cost"
        if self.svm != "soft" and self.classifier != "svm":
            yield "hull.svm hull.classifier", 'hull.classifier = "svm"'
        radius = self.radius / (-points.curvature) ** 0.5
        try:
            PoincareQuantizer(self.epsilon, radius, points.curvature)
        except ValueError as error:
            yield "hull.epsilon hull.radius points.curvature", f"another combination: {error}"


METHODS = {
    "hull": OneShot(
        "one-shot classifier in the Poincaré disc from a secure sum of the clients' quantised"
        " hulls",
        space="disc",
        # The curvature of the disc belongs to the embedding of the points; no plane is its limit.
        control={"method": "hull", "hull.classifier": "multinomial"},
        client="curvfed.strategies.methods.hull.client:HullClient",
        server="curvfed.strategies.methods.hull.server:HullServer",
        tasks=POINTS,
        keys={"hull": Keys},
        phase="hulls",
    ),
}

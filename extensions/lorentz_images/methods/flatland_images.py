"""FlatLand on images, of which its Appendix E.2 says only that it "performs competitively": our
reading, a Lorentz classifier whose time-like parameters are personal."""

from typing import Literal

from pydantic import Field

from curvfed.extensions.lorentz_images.lorentz_head import LorentzImages
from curvfed.strategies.base.keys import CHOSEN, Rate, Table
from curvfed.strategies.base.method import IMAGES, Method, Network


class Keys(Table):
    """Keys of FlatLand on images."""

    curvature: Rate | None = Field(default=CHOSEN, le=0)
    """curvature of the classifier's space for all clients: below 0, or 0 for flat space, the limit
    of the curved ones; auto: each client learns its own, or all share one with
    flatland-images-shared, from -1 on"""
    curvature_map: Literal["sigmoid", "exp", "wide"] = "sigmoid"
    """the squared radius K of a learned curvature as a function of k, as flatland.curvature-map"""
    proximal: Rate = Field(default=0.01, ge=0)
    """coefficient of the proximal term on the shared parameters, as flatland.proximal"""

    def proximal_terms(self) -> dict[str, float]:
        """The paper's term, without a half."""
        return {"proximal": self.proximal}

    def idle(self) -> tuple[str, ...]:
        """A given curvature is not learned."""
        return () if self.curvature is None else ("curvature_map",)


def lorentz_classifier(keys: Keys) -> Network:
    """A network whose classifier is a `LorentzHead`."""
    addition = LorentzImages(keys.curvature_map, keys.curvature)
    return Network(options={"addition": addition}, separates_head=True)


METHODS = {
    "flatland-images": Method(
        "flatland on images, as we read it: a Lorentz classifier with personal time-like parameters"
        " and a curvature per client",
        space="hyperbolic",
        personal=("head.layer.time", "head.k"),
        network=lorentz_classifier,
        tasks=IMAGES,
        keys={"flatland-images": Keys},
    ),
    "flatland-images-shared": Method(
        "flatland-images without decoupling: all parameters are averaged",
        space="hyperbolic",
        network=lorentz_classifier,
        tasks=IMAGES,
        keys={"flatland-images": Keys},
    ),
}

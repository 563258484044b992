"""AFL and Fed3R (He et al., CVPR 2025; Fanì et al., ICML 2024): a classifier in closed form on a
frozen body."""

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.least_squares import ClosedForm
from curvfed.strategies.base.method import IMAGES, Method, Network


class Keys(Table):
    """Keys of AFL and Fed3R."""

    retired = (("normalize", False),)

    ridge: Rate = Field(default=0.0, ge=0)
    """lambda times the number of examples, added to the diagonal of the features' second moments,
    and with dp.unit times their trace, as private sums do not say the number; 0: AFL, without a
    ridge in its result; above 0: Fed3R (its authors add .01 over all examples)"""


class FrozenForm(ClosedForm):
    """The closed form on features of their own lengths."""

    normalizes = False


def network(keys: Keys) -> Network:
    """A linear classifier without bias, by least squares from the features to one-hot labels.

    AFL's clients send their own solutions (V_k + γI)⁻¹U_k and V_k + γI, from which its server
    computes, one client after the other, (Σ V_k + KγI)⁻¹ Σ U_k, and then takes KγI out. Every step
    of this recursion is recursive least squares for a block of rows, and its end the minimum over
    all examples. Sums of V_k and U_k give the same, need no γ, and can be secure; Fed3R's and
    SphereFed's clients send them.
    """
    return Network(head="sphere", options={"normalize": False}, calibration=FrozenForm)


METHODS = {
    "afl": Method(
        "classifier in closed form on a body that is not trained; num-rounds=0 is enough (He et"
        " al., 2025; Fanì et al., 2024)",
        space="flat",
        network=network,
        tasks=IMAGES,
        # A rate above 0 trains body and classifier as fedavg does, before the closed form.
        settings={"images": {"learning_rate": 0.0, "local_epochs": 1, "fine_tune_epochs": 0}},
        keys={"afl": Keys},
    ),
}

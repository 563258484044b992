"""What follows from a configuration for its secure sums: who must stay, and what hulls cost."""

from curvfed.client_app.node.policy import Sums
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import point_spec, public_parameters
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.secure_sum.session import Session


def check_secure_sums(config: RunConfig, number: int) -> list[str]:
    """The properties of the run's secure sums over `number` clients, in words; `config` is settled.

    Raises
    ------
    ConfigError
        If the threshold does not fit the number of clients, or bins, labels and cap of their hulls
        do not fit together.
    """
    one_shot = config.row.is_one_shot
    asked = number if one_shot else max(1, round(config.fraction_train * number))
    keys = config.secure
    try:
        session = Session(
            "", "", 0, SUM_PRIME, 1, tuple(range(asked)), keys.threshold or 0, keys.neighbours or 0
        )
    except SecureSumError as error:
        raise ConfigError(
            f"num-supernodes = {number}, of whom {asked} would be summed: {error}"
        ) from None
    told = [
        f"secure sum: {session.needed} of {asked} clients must stay to its end; each shares its"
        f" secrets with {session.degree} others"
    ]
    if asked < (least := Sums().contributors):
        told.append(
            f"real nodes take part in no sum over fewer than {least}, unless [sums] in their"
            " policy.toml allows it"
        )
    classes = _known_classes(config) if one_shot else 0
    return told + ([_what_hulls_cost(config, classes, number)] if classes else [])


def _known_classes(config: RunConfig) -> int:
    """The number of classes of a run on points; 0 if only the data tell it."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    return (
        config.table("hull").num_classes or len(point_spec(config, config.points).kept) or built_in
    )


def _what_hulls_cost(config: RunConfig, classes: int, number: int) -> str:
    values = public_parameters(config.table("hull"), config.points, classes, number)
    form = "a sum for every bin" if values.is_dense else "power sums"
    return (
        f"hulls: epsilon = {values.epsilon:g} makes {values.quantizer.num_bins:,} bins; for"
        f" {values.num_classes} classes every client sends {values.length:,} numbers modulo"
        f" {values.prime} ({values.length * 8 / 1000:,.1f} kB), {form}"
    )

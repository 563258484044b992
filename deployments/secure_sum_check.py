"""The secure sums of a configuration: their thresholds, and the message size of hulls."""

from curvfed.client_app.node.policy_tables import Sums
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.point_data import point_spec, public_parameters
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.secure_sum.session import Session


def check_secure_sums(config: RunConfig, number: int) -> list[str]:
    """The properties of a run's secure sums over `number` clients, in words.

    Raises
    ------
    ConfigError
        If the threshold does not fit the number of clients, or the bins, labels and cap of hulls do
        not fit together.
    """
    one_shot = config.row.is_one_shot
    cohort = number if one_shot else max(1, round(config.fraction_train * number))
    try:
        session = Session(
            run="",
            phase="",
            round=0,
            modulus=SUM_PRIME,
            length=1,
            clients=tuple(range(cohort)),
            threshold=config.secure.threshold or 0,
            neighbours=config.secure.neighbours or 0,
        )
    except SecureSumError as error:
        raise ConfigError(
            f"num-supernodes = {number}, of whom {cohort} would be summed: {error}",
            key="secure-sum",
        ) from None
    lines = [
        f"secure sum: {session.needed} of {cohort} clients must stay to its end; each shares its"
        f" secrets with {session.degree} others"
    ]
    minimum = Sums().contributors
    if cohort < minimum:
        lines.append(
            f"real nodes take part in no sum over fewer than {minimum}, unless [sums] in their"
            " policy.toml allows it"
        )
    num_classes = _num_classes(config) if one_shot else 0
    if num_classes:
        lines.append(_hull_size(config, num_classes, number))
    return lines


def _num_classes(config: RunConfig) -> int:
    """The number of classes of a run on points; 0 if it depends on the data."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    num_kept = len(point_spec(config, config.points).selected_classes)
    return config.table("hull").num_classes or num_kept or built_in


def _hull_size(config: RunConfig, classes: int, number: int) -> str:
    values = public_parameters(config.table("hull"), config.points, classes, number)
    form = "a sum for every bin" if values.is_dense else "power sums"
    return (
        f"hulls: epsilon = {values.epsilon:g} makes {values.quantizer.num_bins:,} bins; for"
        f" {values.num_classes} classes every client sends {values.length:,} numbers modulo"
        f" {values.prime} ({values.length * 8 / 1000:,.1f} kB), {form}"
    )

"""The secure sums of a configuration: their thresholds, and the size of messages."""

from curvfed.client_app.node.policy import Sums
from curvfed.strategies.config.one_shot import server_half
from curvfed.strategies.config.privacy import check_enough_clients
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.tasks.points.dataset import PointDataset


def check_secure_sums(config: RunConfig, number: int) -> list[str]:
    """The properties of a run's secure sums over `number` clients, in words.

    Raises
    ------
    ConfigError
        If the threshold does not fit the number of clients, differential privacy cannot hide one
        among so few, or the bins, labels and cap of hulls do not fit together.
    """
    cohort = config.row.num_asked(number, config.fraction_train)
    check_enough_clients(config, cohort)
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
    if config.row.sums_only and (names := tuple(map(str, range(_num_classes(config))))):
        lines += filter(None, [server_half(config, names).describe(number)])
    return lines


def _num_classes(config: RunConfig) -> int:
    """The number of classes of a run on points; 0 if it depends on the data."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    num_kept = len(PointDataset.of_run(config).spec.selected_classes)
    return config.num_public_classes or num_kept or built_in

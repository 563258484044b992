"""The points that a configuration describes, and the public parameters of the hull protocol."""

from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Points
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.methods.hull import Keys
from curvfed.tasks.points.data import PointSpec


def point_spec(run: RunKeys, keys: Points) -> PointSpec:
    """The specification of a run's points; `run` has its defaults resolved."""
    return PointSpec(
        dataset=run.dataset,
        data_dir=run.data_path,
        partition=run.partition,
        alpha=run.alpha,
        seed=run.seed,
        split_seed=-1 if keys.split_seed is None else keys.split_seed,
        test_size=run.test_size,
        curvature=keys.curvature,
        classes=keys.classes,
        lacking=keys.lacking,
        num_points=keys.num,
        sample_radius=keys.sample_radius,
        margin=keys.margin,
        reference=keys.reference,
        embedding_key=keys.embedding_key,
        label_key=keys.label_key,
    )


def public_parameters(
    keys: Keys, points: Points, num_classes: int, num_clients: int
) -> PublicParameters:
    """The public parameters of a hull run.

    Raises
    ------
    ConfigError
        If they are out of range or do not fit together.
    """
    try:
        return PublicParameters(
            curvature=points.curvature,
            radius=keys.radius / (-points.curvature) ** 0.5,
            epsilon=keys.epsilon,
            num_classes=num_classes,
            num_clients=num_clients,
            cap=keys.cap,
            code=keys.code,
            h=keys.h,
        )
    except ValueError as error:
        raise ConfigError(str(error), key="hull-parameters") from None

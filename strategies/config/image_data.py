"""The image data that a configuration describes; server and clients agree on it."""

from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.images.data import ImageSpec
from curvfed.tasks.images.label_partition import Deal


def image_spec(config: RunConfig) -> ImageSpec:
    """The specification of a run's images; `config` is settled (`curvfed.strategies.config.run_config`)."""
    return ImageSpec(
        dataset=config.dataset,
        data_dir=config.data_path,
        deal=Deal(config.partition, config.alpha, config.shards, config.min_client_size),
        seed=config.seed,
        train_size=config.train_size,
        test_size=config.test_size,
        size=config.images.size or 0,
        channels=config.images.channels or 0,
        train_subset=config.images.train_subset or 0,
        test_subset=config.images.test_subset or 0,
    )

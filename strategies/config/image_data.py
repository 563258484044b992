"""From configuration to the images that it names, the same on both sides."""

from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.images.data import ImageSpec
from curvfed.tasks.images.label_partition import Deal


def image_spec(config: RunConfig) -> ImageSpec:
    """What determines the images of a run; `config` is settled (`curvfed.strategies.config.defaults`)."""
    return ImageSpec(
        dataset=config.dataset,
        data_dir=config.data_path,
        deal=Deal(config.partition, config.alpha, config.shards, config.min_client_size),
        seed=config.seed,
        train_size=config.train_size,
        test_size=config.test_size,
        size=config.images.size,
        channels=config.images.channels,
        train_subset=config.images.train_subset,
        test_subset=config.images.test_subset,
    )

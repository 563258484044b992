"""Reads the points that the server has."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from curvfed.server_app.federation import Federation
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.one_shot import ServerPoints
from curvfed.strategies.config.point_data import point_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import ClientPoints
from curvfed.tasks.points.data import load_client, load_pooled, load_test, load_test_file

log = logging.getLogger("curvfed")


def read_server_points(config: RunConfig, federation: Federation) -> ServerPoints:
    """The server's test points, and in a simulation all points.

    Raises
    ------
    ConfigError
        If the test data or a simulation's data cannot be read.
    """
    spec = point_spec(config, config.points)
    described = federation.descriptions
    simulated = all(description.partition_digest for description in described.values())
    test = None
    if config.test_data not in ("auto", "none"):
        try:
            test = load_test_file(Path(config.test_data), spec)
        except DataError as error:
            raise ConfigError(f'test-data = "{config.test_data}": {error}', key="data") from None
    elif simulated and config.test_data == "auto":
        test = load_test(spec)
    else:
        log.info("no global accuracy: the server has no test data (test-data)")
    if not simulated:
        return ServerPoints(test)
    try:
        parts = {
            partition: load_client(spec, partition, description.num_partitions)
            for partition, description in described.items()
        }
        pooled = load_pooled(spec)
    except DataError as error:
        raise ConfigError(str(error), key="data") from None
    same = {
        partition: points
        for partition, points in parts.items()
        if points.digest == described[partition].digest
    }
    if changed := ", ".join(str(partition) for partition in parts if partition not in same):
        log.warning(
            "the server's points differ from those of partition-id %s: they are not compared",
            changed,
        )
    if not same:
        return ServerPoints(test)
    return ServerPoints(_renumbered(test, pooled.class_names) if test else None, pooled, same)


def _renumbered(test: ClientPoints, names: tuple[str, ...]) -> ClientPoints:
    """Test points with the clients' class numbers; classes that no client has come last."""
    all_names = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([all_names.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=all_names)

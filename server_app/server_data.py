"""Reads the data that the server has."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from curvfed.server_app.federation import Federation
from curvfed.strategies.base.one_shot import ServerPoints
from curvfed.strategies.config.run_config import RunConfig, open_dataset
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError

if TYPE_CHECKING:
    from curvfed.tasks.points.client_points import ClientPoints

log = logging.getLogger("curvfed")


def read_test(config: RunConfig, federation: Federation) -> Any:
    """The server's test examples; None if it has none.

    Raises
    ------
    ConfigError
        If they cannot be read, or have other classes or another shape.
    """
    facts = federation.facts
    if config.test_data == "none":
        return None
    if config.test_data == "auto" and not shares_public_data(federation):
        log.info("no global accuracy: the server has no test data (test-data)")
        return None
    try:
        test = open_dataset(config, facts.task).test(config.test_path)
        if test is not None:
            test.check_test(facts.shape, facts.class_names)
    except DataError as error:
        source = f'test-data = "{config.test_data}"'
        if config.test_data == "auto":
            source = f'dataset = "{config.dataset}"'
        raise ConfigError(f"{source}: {error}", key="data") from None
    return test


def shares_public_data(federation: Federation) -> bool:
    """Whether every client has a part of a public data set."""
    return all(description.partition_digest for description in federation.descriptions.values())


def read_server_points(config: RunConfig, federation: Federation) -> ServerPoints:
    """The server's test points, and of a public data set all points.

    Raises
    ------
    ConfigError
        If the test data or the public data set cannot be read.
    """
    described = federation.descriptions
    test = read_test(config, federation)
    if not shares_public_data(federation):
        return ServerPoints(test)
    dataset: Any = open_dataset(config, federation.facts.task)
    try:
        parts = {
            partition: dataset.part(partition, description.num_partitions)
            for partition, description in described.items()
        }
        pooled = dataset.pooled()
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


def _renumbered(test: "ClientPoints", names: tuple[str, ...]) -> "ClientPoints":
    """Test points with the clients' class numbers; classes that no client has come last."""
    all_names = tuple(dict.fromkeys((*names, *test.class_names)))
    numbers = np.array([all_names.index(name) for name in test.class_names], np.int64)
    return replace(test, labels=numbers[test.labels], class_names=all_names)

"""One cluster for all tests of this folder: its start takes as long as most of them."""

import signal
from collections.abc import Iterator

import pytest
from app_runs import Run
from app_runs import run as run_here
from many_hosts import NODES, Hosts


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Hosts]:
    """A SuperLink and three SuperNodes, connected."""
    one = Hosts(tmp_path_factory.mktemp("hosts"))
    if one.reason:
        request.config.pluginmanager.getplugin("terminalreporter").write_line(
            f"tests/hosts: no hosts of their own here, {one.reason}: the cluster is on loopback, tests of lines are skipped"
        )
    # The cluster must not outlive tests that something else ends.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        one.start()
        yield one
    finally:
        one.down()
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of `many_hosts.PAIRS` in this process: what comes of it where nothing goes wrong."""
    return run_here(tmp_path_factory.mktemp("reference"), clients=len(NODES), num_rounds=3, method="flatland")

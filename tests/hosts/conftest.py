"""One cluster for all tests of this folder: its start takes as long as most of them."""

import signal
from collections.abc import Iterator

import pytest
from many_hosts import Hosts


@pytest.fixture(scope="session")
def hosts(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Hosts]:
    """A SuperLink and three SuperNodes, connected."""
    one = Hosts(tmp_path_factory.mktemp("hosts"))
    if one.reason:
        request.config.pluginmanager.getplugin("terminalreporter").write_line(
            f"tests/hosts: no hosts of their own here, {one.reason}: the cluster is on loopback,"
            " tests of lines are skipped"
        )
    # The cluster must not outlive tests that something else ends.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        one.start()
        yield one
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        one.down()
        signal.signal(signal.SIGTERM, before)

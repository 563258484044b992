"""Fixtures for all tests."""

import atexit
import contextlib
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from paused_clock import PausedClock

ROOT = Path(__file__).parent
QUICK = "not long"
"""The marker expression of `make test`."""

MOST_CASES = 8

# A first example pays for imports inside functions: time says nothing about correctness here.
# The same examples every time: a run of the tests says something of the change, not of the draw.
settings.register_profile("whole", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("whole"), max_examples=12)

# What the shell says to the app, to Flower and to Ray, or of proxies, is no part of a test; a home
# is.
FOREIGN = {
    name
    for name in os.environ
    if name.startswith(("CURVFED_", "FLWR_", "RAY_")) or name.lower().endswith("_proxy")
}
for name in FOREIGN - {"CURVFED_CHROMIUM", "CURVFED_DATA"}:
    del os.environ[name]
if "HOME" not in os.environ:
    os.environ["HOME"] = tempfile.mkdtemp(prefix="curvfed-tests-")

# Runs write many small files and flush each to the disk, which is a tenth of the tests' time: they
# lie in memory where there is room, and programs in them may be started.
MEMORY = Path("/dev/shm")
ROOM = 8 * 2**30
if os.access(MEMORY, os.W_OK):
    is_large = shutil.disk_usage(MEMORY).free >= ROOM
    has_programs = not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if is_large and has_programs:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# A shell without job control starts what runs in its background with SIGINT ignored, and children
# inherit that: the tests of interrupted runs would wait for an end that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Imports and collection leave no garbage, and the collector takes a third of their time.
gc.disable()

finished: list[pytest.Session] = []


def leave() -> None:
    """End a process of tests at once: Python takes three seconds to free all objects, and libraries
    report those that stay as leaks."""
    if finished:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(finished[-1].exitstatus)


# Before the functions that imports of tests register, so that it is called after them.
atexit.register(leave)

# Tests look into clients of runs in this process: beside another thread a run forks no workers.
threading.Thread(target=threading.Event().wait, daemon=True).start()


def pytest_configure(config: pytest.Config) -> None:
    """The quick tier draws fewer examples than a run of chosen files, or of the longer tier."""
    settings.load_profile("quick" if config.option.markexpr == QUICK else "whole")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """The collector searches only objects that tests make."""
    yield
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let `leave` end the process with the status of the session."""
    finished.append(session)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A tree without an extension leaves out the cases of its methods. The quick tier keeps a third
    of a large grid of cases of a law, an oracle or a property of all methods, by names."""
    from absent_extensions import leave_out

    leave_out(config, items)
    if config.option.markexpr != QUICK:
        return
    grids: dict[str, list[pytest.Item]] = defaultdict(list)
    tests = ROOT / "tests"
    rooms = (tests / "laws", tests / "oracles", tests / "methods" / "all_methods")
    for item in items:
        is_in_grid = any(map(item.path.is_relative_to, rooms))
        if is_in_grid and item.get_closest_marker("long") is None:
            grids[item.nodeid.partition("[")[0]].append(item)
    for cases in grids.values():
        if len(cases) > MOST_CASES:
            cases.sort(key=lambda case: crc32(case.nodeid.encode()))
            for case in cases[len(cases) // 3 :]:
                case.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def own_log() -> Iterator[logging.Logger]:
    """The app's log without what an earlier test in this process set up."""
    log = logging.getLogger("curvfed")
    handlers = log.handlers[:]
    state = (log.level, log.propagate)
    log.handlers.clear()
    log.setLevel(logging.NOTSET)
    log.propagate = True
    yield log
    log.handlers[:] = handlers
    log.setLevel(state[0])
    log.propagate = state[1]


def give_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a node whose state-path has the same name the same secret, and so the same split."""
    from curvfed.client_app.node import Node, keys

    names: list[str] = []
    secret_of = keys._secret

    def secret(node: Node) -> bytes:
        names.append(f"{node.state_root.name} {node.partition}")
        return secret_of(node)

    def new_secret() -> bytes:
        return blake2b(names[-1].encode(), digest_size=32).digest()

    monkeypatch.setattr(keys, "_secret", secret)
    monkeypatch.setattr(keys, "new_secret", new_secret)


@pytest.fixture(scope="session", autouse=True)
def own_anchors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Anchors of ledgers leave nothing in the home of whoever runs the tests, where those of an
    earlier session would lock out nodes of the same path."""
    import curvfed.client_app.node.ledger as ledger

    of_user = Path.home()
    folder = tmp_path_factory.mktemp("anchors")
    home = ledger.home
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "home", lambda: folder if Path.home() == of_user else home())
        yield


@pytest.fixture(scope="module")
def secrets_by_names() -> Iterator[None]:
    """For runs of a whole module's nodes: they split their own data as in every other session."""
    with pytest.MonkeyPatch.context() as patch:
        give_secrets(patch)
        yield


@pytest.fixture
def own_methods() -> Iterator[None]:
    """Forgets the methods that a test registers."""
    from curvfed.strategies.config.run_config import defaults
    from curvfed.strategies.methods import foreign_methods
    from curvfed.tasks import plugins

    installed = dict(plugins.registered("methods"))
    yield
    plugins.registered("methods").clear()
    plugins.registered("methods").update(installed)
    foreign_methods.cache_clear()
    defaults.cache_clear()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_log: logging.Logger) -> Path:
    """A home below tmp_path, no clients left in memory, no report (it takes longer than the run),
    the log to pytest. Nodes have secrets by their names."""
    import curvfed.client_app.clients_in_memory
    import curvfed.server_app.app

    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(
        curvfed.client_app.clients_in_memory,
        "_clients",
        curvfed.client_app.clients_in_memory._clients.__class__(),
    )
    monkeypatch.setattr(curvfed.server_app.app, "_report", lambda directory: None)
    give_secrets(monkeypatch)
    # With a handler there already the app adds none.
    own_log.addHandler(logging.NullHandler())
    return home


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for the runs of a whole module, which write no report."""
    import curvfed.client_app.clients_in_memory
    import curvfed.server_app.app

    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(home))
        patch.setattr(curvfed.server_app.app, "_report", lambda directory: None)
        yield home
        curvfed.client_app.clients_in_memory._clients.clear()


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that refuses at once."""
    with contextlib.suppress(ImportError):  # the extension may be absent
        from curvfed.extensions.public_data import downloads

        monkeypatch.setattr(downloads, "PROBE_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PausedClock:
    """The time by which phases end: clients that never answer take none, however busy the machine
    is."""
    import curvfed.server_app.secure.masked_cohort
    import curvfed.server_app.secure.patience
    import curvfed.strategies.wire.exchange

    clock = PausedClock()
    monkeypatch.setattr(curvfed.strategies.wire.exchange, "time", clock)
    monkeypatch.setattr(curvfed.server_app.secure.masked_cohort, "time", clock)
    monkeypatch.setattr(curvfed.server_app.secure.patience, "time", clock)
    return clock


@pytest.fixture(scope="session")
def cora_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a small graph in the place and layout of Cora. Read only."""
    from graph_fixtures import write_planetoid

    root = tmp_path_factory.mktemp("data-cora")
    write_planetoid(root)
    return root


@pytest.fixture(scope="session")
def minesweeper_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a small grid in the place and layout of Minesweeper. Read only."""
    from absent_extensions import skip_without
    from graph_fixtures import write_minesweeper

    skip_without("minesweeper")
    root = tmp_path_factory.mktemp("data-minesweeper")
    write_minesweeper(root)
    return root

"""`curvfed cluster doctor` names the one thing that is broken, with the way to mend it."""

import datetime
import errno
import os
import re
import shutil
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fleet import fleet_server

from curvfed.client_app.node.ledger import Ledger
from curvfed.deployments.commands.command import main
from curvfed.deployments.processes import free_ports
from curvfed.extensions.cluster.commands import (
    ClusterError,
    certificates,
    checks,
    database,
    link,
    registry,
)
from curvfed.extensions.cluster.commands.flower_commands import ONE_PORT, Command
from curvfed.extensions.cluster.commands.link import Link
from curvfed.extensions.cluster.commands.setup import add_node, make_cluster
from curvfed.strategies.wire.store import Store


class Site:
    """A server that is not started, with a registered node, one run, and its personal file."""

    def __init__(self, path: Path) -> None:
        self.folder = make_cluster(path / "c", [], ["north"], *free_ports(2), 100)
        self.node = self.folder.node("north")
        self.results = path / "results"
        self.state = path / "state"
        registry.write_names(self.folder, {"north": "41"})
        registry.write_names(self.folder, {"7": "one"}, registry.RUNS)
        with sqlite3.connect(self.folder.database) as connection:
            connection.execute("CREATE TABLE node (node_id INTEGER, name TEXT)")
            connection.executemany(
                "INSERT INTO node VALUES (?, 'north')", [(number,) for number in range(1000)]
            )
        connection.close()
        database.back_up_database(self.folder)
        for store in (self.checkpoints, self.personal):
            for stamp in (1, 2):
                store.save(stamp, {"a": np.arange(100.0)}, {}, base=stamp - 1)

    @property
    def checkpoints(self) -> Store:
        return Store(self.results / "one" / "checkpoint" / "server")

    @property
    def personal(self) -> Store:
        return Store(self.state / "one" / "00000")

    def findings(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
        """Exit status and lines of what is wrong, at the server and at the node."""
        cluster = ["cluster", "--folder", str(self.folder.path), "doctor"]
        config = f'partition-id=0 num-partitions=1 state-path="{self.state}"'
        codes = [
            main([*cluster, "--results", str(self.results)]),
            main([*cluster, "north", "--node-config", config]),
        ]
        lines = capsys.readouterr().out.splitlines()
        return max(codes), "\n".join(line for line in lines if line.startswith("WRONG"))


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_a_run_that_was_resumed_is_checked_once_and_one_before_its_first_round_in_words(site):
    registry.write_names(site.folder, {"7": "one", "8": "one", "9": "two"}, registry.RUNS)
    (site.results / "two" / "checkpoint" / "server").mkdir(parents=True)
    found = [c for c in checks.server_checks(site.folder, site.results) if c.name == "run"]
    said = [check.run() for check in found]
    assert len(said) == 2
    assert said[0].endswith("server: rounds 1, 2")
    assert said[1].endswith("server: no round yet")


def expired(site: Site) -> None:
    for path in site.folder.server:
        path.unlink()
    certificates.make_server(
        *site.folder.server, site.folder.authority, certificates.server_names([]), 0
    )


def ends_soon(site: Site) -> None:
    assert main(["cluster", "--folder", str(site.folder.path), "renew", "--days", "20"]) == 0


def of_another_authority(site: Site) -> None:
    for path in site.folder.authority:
        path.unlink()
    certificates.make_authority(*site.folder.authority)


def readable_key(site: Site) -> None:
    site.node.key.chmod(0o644)


def torn_key(site: Site) -> None:
    site.node.key.write_bytes(site.node.key.read_bytes()[:200])


def key_of_another_kind(site: Site) -> None:
    """As ssh-keygen makes it by default."""
    form = Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    site.node.key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))


def key_of_another_node(site: Site) -> None:
    for path in (site.node.key, site.node.public_key):
        path.unlink()
    certificates.make_node_key(site.node.key, site.node.path / "other.pub")
    certificates.make_node_key(site.node.path / "other", site.node.public_key)


def without_key(site: Site) -> None:
    site.node.key.unlink()


def torn_authority(site: Site) -> None:
    site.node.authority.write_text("-----BEGIN CERTIFICATE-----\n")


def not_registered(site: Site) -> None:
    registry.write_names(site.folder, {})


def truncated_database(site: Site) -> None:
    os.truncate(site.folder.database, site.folder.database.stat().st_size // 2)


def torn_checkpoint(site: Site) -> None:
    os.truncate(site.results / "one" / "checkpoint" / "server" / "00000002.safetensors", 100)


def torn_personal_file(site: Site) -> None:
    os.truncate(site.state / "one" / "00000" / "00000002.safetensors", 100)


def damaged_ledger(site: Site) -> None:
    ledger = Ledger(site.state / "ledger-00000.jsonl")
    for run in ("one", "two"):
        ledger.append("run", run=run)
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b'"one"', b'"six"'))


BROKEN: list[tuple[Callable[[Site], None], str, str]] = [
    (
        expired,
        "certificate",
        r"server\.crt expired 1 day ago; `curvfed cluster --folder \S+ renew`",
    ),
    (
        ends_soon,
        "certificate",
        r"server\.crt ends in 19 days; `curvfed cluster --folder \S+ renew`",
    ),
    (
        of_another_authority,
        "certificate",
        r"do not belong together .*; `curvfed cluster --folder \S+ renew`",
    ),
    (readable_key, "key", r"node\.key, mode 0644; chmod 600 .*node\.key"),
    (torn_key, "key", r"node\.key is no private key .*; bring it from the server's nodes/north"),
    (key_of_another_kind, "key", r"node\.key is no ECDSA key, .*-t ecdsa"),
    (key_of_another_node, "key", r"node\.key\.pub is not the public key of node\.key"),
    (without_key, "files", r"node\.key; bring it from the server's nodes/north"),
    (torn_authority, "certificate", r"ca\.crt cannot be read .* ca\.crt is that of the server"),
    (
        not_registered,
        "registered",
        r"not registered: north; `curvfed cluster --folder \S+ register`",
    ),
    (
        truncated_database,
        "database",
        r"is damaged .*; `curvfed cluster --folder \S+ doctor --restore`",
    ),
    (torn_checkpoint, "run", "unreadable: .*; without this file round 1 holds"),
    (torn_personal_file, "personal", "unreadable: .*; without this file round 1 holds"),
    (damaged_ledger, "ledger", r"ledger-00000\.jsonl, line 1; restore the file from a backup"),
]
NOT_RUNNING = (
    r"the SuperLink does not run; `curvfed cluster --folder \S+ superlink` starts it",
    "no SuperLink answers at",
    *["no SuperLink answers at"] * (not ONE_PORT),  # else the clock is not known
)


def test_of_a_sound_cluster_that_is_down_only_this_is_said(site, capsys):
    code, wrong = site.findings(capsys)
    assert code == 1
    pairs = list(zip(NOT_RUNNING, wrong.splitlines(), strict=True))
    assert all(re.search(words, line) for words, line in pairs)


@pytest.mark.parametrize(
    ("harm", "name", "words"), BROKEN, ids=[harm.__name__ for harm, _, _ in BROKEN]
)
def test_what_is_broken_is_named_with_its_mend(site, capsys, harm, name, words):
    harm(site)
    code, wrong = site.findings(capsys)
    assert code == 1
    assert re.search(f"^WRONG +{name} +.*{words}", wrong, re.MULTILINE), wrong


def test_a_damaged_database_is_restored_from_its_backup(site, capsys):
    cluster = ["cluster", "--folder", str(site.folder.path)]
    assert main([*cluster, "doctor", "--restore"]) == 1
    assert "superlink.db is sound" in capsys.readouterr().err
    truncated_database(site)
    assert main([*cluster, "superlink"]) == 1
    assert "doctor --restore" in capsys.readouterr().err
    main([*cluster, "doctor", "--restore"])
    assert "sound" in database.check_database(site.folder)
    connection = sqlite3.connect(site.folder.database)
    assert connection.execute("SELECT COUNT(*), MAX(node_id) FROM node").fetchall() == [(1000, 999)]
    connection.close()
    assert site.folder.database.with_suffix(".damaged.db").exists()
    with (
        socket.create_server(("127.0.0.1", site.folder.api_port)),
        pytest.raises(ClusterError, match="stop it first"),
    ):
        database.restore_database(site.folder)


# The configuration of a node, and its folder of state


def node_lines(site: Site, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What `doctor` says of the node, and its exit status first."""
    code = main(["cluster", "--folder", str(site.folder.path), "doctor", "north", *words])
    return [f"exit status {code}", *capsys.readouterr().out.splitlines()]


def start(site: Site, monkeypatch: pytest.MonkeyPatch, name: str, config: str, port: int) -> None:
    """Start a node, but for Flower's own program."""
    monkeypatch.setattr(Command, "become", lambda command: None)
    cluster = ["cluster", "--folder", str(site.folder.path)]
    words = ["supernode", name, "--node-config", config, "--superlink", f"127.0.0.1:{port}"]
    assert main([*cluster, *words]) == 0


def test_a_node_that_never_started_is_not_sound_without_its_configuration(
    site, monkeypatch, capsys
):
    """Every line was right: nothing of the node's data was looked at."""
    monkeypatch.setattr(checks, "check_superlink", lambda link: "answers")
    monkeypatch.setattr(checks, "check_clock", lambda link: "right")
    lines = node_lines(site, capsys)
    (wrong,) = [line for line in lines if line.startswith("WRONG")]
    assert re.search(r"node-config +this node was not started .*, so its data, .* --node-", wrong)
    assert lines[0] == "exit status 1"
    config = f'partition-id=0 num-partitions=1 state-path="{site.state}"'
    assert node_lines(site, capsys, "--node-config", config)[0] == "exit status 0"


def test_without_a_configuration_that_of_the_last_start_is_checked(
    site, tmp_path, monkeypatch, capsys
):
    data = tmp_path / "points.npz"
    np.savez(data, x_train=np.full((5, 2), 0.1), y_train=np.arange(5) % 2)
    config = f'partition-id=3 data-path="{data}" state-path="{site.state}"'
    with fleet_server(site.folder) as port:
        start(site, monkeypatch, "north", config, port)
    monkeypatch.setattr(checks, "check_superlink", lambda link: "answers")
    monkeypatch.setattr(checks, "check_clock", lambda link: "right")
    lines = node_lines(site, capsys)
    assert lines[0] == "exit status 0"
    assert "ok     keys         partition-id 3" in lines
    assert f"ok     data         {data}: 5 points in the disc, 2 classes" in lines
    assert site.node.started_with.stat().st_mode & 0o777 == 0o600
    data.unlink()
    lines = node_lines(site, capsys)
    assert lines[0] == "exit status 1"
    assert any(re.search(f"^WRONG +data .*there is no {data}", line) for line in lines)


def test_two_nodes_in_one_folder_of_state_are_named(tmp_path, monkeypatch, capsys):
    site = Site(tmp_path)
    add_node(site.folder, "south", site.folder.superlink)
    config = f'num-partitions=2 state-path="{site.state}"'
    with fleet_server(site.folder) as port:
        start(site, monkeypatch, "north", f"partition-id=0 {config}", port)
        assert "shared" not in capsys.readouterr().out
        start(site, monkeypatch, "south", f"partition-id=1 {config}", port)
        north = site.node.path
        words = rf"^note +state .*{site.state} is that of {north} too; needed is a folder for each"
        assert re.search(words, capsys.readouterr().out, re.MULTILINE)
        start(site, monkeypatch, "north", f"partition-id=0 {config}", port)
    lines = node_lines(site, capsys)
    south = site.folder.node("south").path
    words = rf"^WRONG +state .* is that of {south} too"
    assert any(re.search(words, line) for line in lines)
    assert lines[0] == "exit status 1"
    shutil.rmtree(south)
    assert not any(re.search(words, line) for line in node_lines(site, capsys))


# The clock, against a server of the same order of checks as Flower's


class Clock(datetime.datetime):
    """A clock that is off."""

    off = 0.0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=cls.off)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What answers here does so, however busy the machine is."""
    monkeypatch.setattr(link, "ANSWER_TIME", 600.0)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = make_cluster(tmp_path_factory.mktemp("fleet") / "c", [], [], 9092, 8000, 10)
    with fleet_server(folder) as port:
        yield Link(f"127.0.0.1:{port}", folder.authority[0])


@pytest.mark.parametrize(
    ("off", "message"),
    [
        (0, ""),
        (3, "(3|2).[0-9] s ahead of"),
        (-400, "clock is (400|399).[0-9] s behind .*NTP"),
        (10**6, "more than a day from the server's"),
    ],
)
def test_a_clock_that_is_off_is_named_with_how_much(fleet, monkeypatch, off, message):
    monkeypatch.setattr(Clock, "off", float(off))
    fields = {"datetime": Clock, "UTC": datetime.UTC, "timedelta": datetime.timedelta}
    monkeypatch.setattr(link, "datetime", SimpleNamespace(**fields))
    if off in (0, 3):
        assert re.search(message, link.check_clock(fleet))
    else:
        with pytest.raises(ClusterError, match=message):
            link.check_clock(fleet)


def test_a_restore_on_a_full_disk_keeps_the_damaged_database(site, monkeypatch):
    def full(source, target):
        Path(target).write_bytes(b"SQLite")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    truncated_database(site)
    before = site.folder.database.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", full)
        with pytest.raises(OSError, match="No space left"):
            database.restore_database(site.folder)
    assert site.folder.database.read_bytes() == before
    database.restore_database(site.folder)
    assert site.folder.database.with_suffix(".damaged.db").read_bytes() == before

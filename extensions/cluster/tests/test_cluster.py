"""The commands of a cluster: its files, what they hand to Flower, checks before a start."""

import contextlib
import datetime
import errno
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from errors import refuses
from flwr.cli.supernode.register import try_load_public_key
from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

from curvfed.client_app.node.policy import Policy
from curvfed.client_app.node.policy_file import read_policy
from curvfed.deployments import patient_flower
from curvfed.deployments.commands.command import main
from curvfed.deployments.processes import free_ports
from curvfed.extensions.cluster.commands import (
    ClusterError,
    ToleratedError,
    certificates,
    checks,
    database,
    forked_clients,
    registry,
    run,
    setup,
    status,
)
from curvfed.extensions.cluster.commands.flower import flower_superlink, flower_supernode
from curvfed.extensions.cluster.commands.flower_commands import SILENT, Command
from curvfed.extensions.cluster.commands.folder import NodeFolder, ServerFolder
from curvfed.extensions.cluster.commands.link import split_address
from curvfed.extensions.cluster.commands.registry import register_nodes
from curvfed.extensions.cluster.commands.setup import POLICY, add_node, make_cluster
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError

LONG = 600.0
"""Seconds that a wait takes at most which ends by itself, on a busy machine too."""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "one"
    return make_cluster(path, ["fl.example.org", "192.0.2.7"], ["north", "south"], 9092, 8000, 365)


# Files


def test_private_keys_are_private(folder, tmp_path):
    private = [folder.authority[1], folder.server[1], *(node.key for node in folder.nodes())]
    assert [mode(path) for path in private] == [0o600] * 4
    (tmp_path / "open").mkdir(mode=0o755)
    opened = make_cluster(tmp_path / "open", [], [], 9092, 8000, 1)
    folders = [folder.path, opened.path, *(node.path for node in folder.nodes())]
    assert [mode(path) for path in folders] == [0o700] * 4
    public = [path for path in folder.path.rglob("*") if path.is_file() and path not in private]
    assert not [path for path in public if b"PRIVATE" in path.read_bytes()]


def test_a_node_folder_has_all_that_the_node_needs_and_no_more(folder):
    north = NodeFolder(folder.path / "nodes" / "north")
    files = {"node.key", "node.key.pub", "ca.crt", "node.toml", "policy.toml", "flwr"}
    assert {path.name for path in north.path.iterdir()} == files
    assert north.authority.read_bytes() == folder.authority[0].read_bytes()
    assert north.superlink == "fl.example.org:9092"
    assert read_policy(north.policy) == Policy()


def test_every_line_of_the_policy_file_is_one_that_a_policy_may_have(tmp_path):
    """The defaults that its comments say are those that hold without the file."""
    lines = [re.sub(r"^# (?=[a-z-]+ = )", "", line) for line in POLICY.splitlines()]
    (tmp_path / "policy.toml").write_text("\n".join(lines))
    policy = read_policy(tmp_path / "policy.toml")
    said = {
        key
        for table in policy.model_dump(exclude_unset=True, by_alias=True).values()
        for key in table
    }
    assert said == {key for table in policy.model_dump(by_alias=True).values() for key in table}
    by_node = {"share_statistics": None, "hull_min_class_size": None}
    assert policy.leaves.model_copy(update=by_node) == Policy().leaves
    sums = policy.sums.model_copy(update={"min_holders": None})  # or all of a smaller group
    assert sums == Policy().sums
    assert policy.privacy.delta == Policy().privacy.delta


def test_groups_of_another_size_are_in_every_policy(tmp_path, capsys):
    path = tmp_path / "c"
    words = [word for number in range(12) for word in ("--node", f"n{number}")]
    assert main(["cluster", "--folder", str(path), "init", *words, "--group-size", "6"]) == 0
    said = capsys.readouterr().out
    assert "groups of 6 to 11 nodes" in said
    assert "pip install --require-hashes -r requirements-node.txt" in said
    assert "make setup" not in said  # with the tools of developers
    assert main(["cluster", "--folder", str(path), "add", "late"]) == 0
    nodes = ServerFolder(path).nodes()
    assert {read_policy(node.policy).sums.group_size for node in nodes} == {6}
    assert len(nodes) == 13


@pytest.mark.parametrize(("number", "size"), [(9, 5), (10, 7)])
def test_init_asks_for_the_size_of_groups_of_many_nodes_on_a_terminal(
    number, size, tmp_path, monkeypatch
):
    monkeypatch.setattr(setup.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(setup.typer, "prompt", lambda *words, **options: 7)
    words = [word for index in range(number) for word in ("--node", f"n{index}")]
    assert main(["cluster", "--folder", str(tmp_path / "c"), "init", *words]) == 0
    nodes = ServerFolder(tmp_path / "c").nodes()
    assert {read_policy(node.policy).sums.group_size for node in nodes} == {size}


def test_nothing_is_overwritten(folder, tmp_path, capsys):
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    for words in (["init"], ["init", "--node", "west"], ["add", "north"]):
        assert main(["cluster", "--folder", str(folder.path), *words]) == 1
        assert "is not overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before
    (tmp_path / "ca.key").write_text("mine")
    with pytest.raises(ClusterError, match=r"ca\.key, and is not overwritten"):
        make_cluster(tmp_path, [], [], 9092, 8000, 1)
    assert (tmp_path / "ca.key").read_text() == "mine"


NO_NAMES = ("../out", "", "a b", ".hidden", "x" * 65)
NO_HOSTS = {
    "0.0.0.0": "0.0.0.0 stands for all addresses of a machine",
    "https://x": "'https://x' is neither a host name nor an address",
    "*.example.org": "*.example.org stands for several host names",
    "fl.*.org": "'fl.*.org' is neither a host name nor an address",
}


@pytest.mark.parametrize(
    ("host", "name", "reason"),
    [
        *(("a", name, f"{name!r} is no name of a node") for name in NO_NAMES),
        *((host, "north", reason) for host, reason in NO_HOSTS.items()),
    ],
)
def test_what_is_no_name_or_no_host_is_refused_before_anything_is_made(
    host, name, reason, tmp_path, capsys
):
    words = ("--folder", tmp_path / "c", "init", "--host", host, "--node", name)
    assert exit_status(*words) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "c").exists()


def test_flower_takes_the_keys(folder):
    """By Flower's own reader of public keys, and each private key fits its public one."""
    from cryptography.hazmat.primitives import serialization

    for node in folder.nodes():
        private = serialization.load_ssh_private_key(node.key.read_bytes(), None)
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        assert try_load_public_key(node.public_key) == public


# Certificates


class Server:
    """A TLS server on loopback with a certificate of the cluster."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with plain, contextlib.suppress(OSError):
                self._context.wrap_socket(plain, server_side=True).close()

    def close(self) -> None:
        self._listener.close()


def handshake(server: Server, authority: Path, name: str) -> None:
    """By another implementation: OpenSSL checks the chain, with the strict rules of RFC 5280."""
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    host, port = split_address(server.address)
    with (
        socket.create_connection((host, port), LONG) as plain,
        context.wrap_socket(plain, server_hostname=name),
    ):
        pass


@pytest.fixture
def server(folder):
    server = Server(*folder.server)
    yield server
    server.close()


def test_the_certificate_is_for_its_names_and_no_others(folder, server):
    for name in ("fl.example.org", "192.0.2.7", "localhost", "127.0.0.1"):
        handshake(server, folder.authority[0], name)
    for name in ("evil.example.org", "example.org", "192.0.2.8"):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|match|not valid for"):
            handshake(server, folder.authority[0], name)


def test_addresses_that_are_none():
    ports = ("localhost", ":9092", "host:0", "host:65536", "host:²")
    for address in (*ports, "https://localhost:9092", "0.0.0.0:9092", "*.example.org:9092"):
        with pytest.raises(ClusterError, match="HOST:PORT"):
            split_address(address)


def test_a_renewed_certificate_is_for_the_same_names_by_the_same_authority(tmp_path):
    folder = make_cluster(tmp_path / "c", ["fl.example.org"], ["north"], 9092, 8000, 10)
    authority = folder.authority[0].read_bytes()
    before = folder.server[0].read_bytes()
    assert exit_status("--folder", folder.path, "renew", "--days", "100") == 0
    assert folder.authority[0].read_bytes() == authority
    assert folder.server[0].read_bytes() != before
    validity = certificates.time_left(folder.server[0])
    assert datetime.timedelta(days=99) < validity < datetime.timedelta(days=100)
    assert mode(folder.server[1]) == 0o600
    server = Server(*folder.server)
    for name in ("fl.example.org", "localhost"):
        handshake(server, folder.node("north").authority, name)
    server.close()


def test_a_certificate_that_is_over_is_refused(tmp_path, folder):
    over = tmp_path / "over.crt", tmp_path / "over.key"
    certificates.make_server(*over, folder.authority, certificates.server_names([]), 0)
    with pytest.raises(ClusterError, match=r"over.crt expired 1 day ago"):
        certificates.check_certificate(over[0])
    soon = make_cluster(tmp_path / "soon", [], [], 9092, 8000, 20)
    with pytest.raises(ToleratedError, match="ends in 19 days"):
        certificates.check_certificate(soon.server[0])


def exit_status(*words: str | Path) -> int:
    """Exit status of a command line."""
    return main(["cluster", *map(str, words)])


class Killed(BaseException):
    """In place of a signal that nobody can catch."""


@contextlib.contextmanager
def killed_at(step: int):
    """The process ends at a step of writing and renaming; yields how many steps there were."""
    steps = iter(range(10**6))
    count = [0]

    def dying(do):
        def counted(*arguments, **options):
            count[0] = next(steps)
            if count[0] == step:
                raise Killed
            return do(*arguments, **options)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "write_new", dying(certificates.write_new))
        patch.setattr(Path, "rename", dying(Path.rename))
        with contextlib.suppress(Killed):
            yield count


def test_a_process_that_is_killed_leaves_nothing_that_stands_in_the_way(tmp_path):
    for step in range(100):
        path = tmp_path / str(step)
        with killed_at(step) as count:
            make_cluster(path, ["fl.example.org"], ["north"], 9092, 8000, 10)
        if count[0] < step:
            break
        with pytest.raises(ClusterError, match=r"there is no .*cluster\.toml"):
            ServerFolder.open(path)
        cluster = make_cluster(path, ["fl.example.org"], ["south"], 9093, 8000, 10)
        files = {"ca.crt", "ca.key", "server.crt", "server.key", "nodes", "flwr", "cluster.toml"}
        assert {entry.name for entry in path.iterdir()} == files
        assert ServerFolder.open(path).fleet_port == cluster.fleet_port == 9093
        assert [node.name for node in cluster.nodes()] == ["south"]
        assert cluster.node("south").superlink == "fl.example.org:9093"
        check_pair(cluster)
    assert step > 10


def check_pair(folder: ServerFolder) -> None:
    """Authority and certificate are of one making."""
    server = Server(*folder.server)
    handshake(server, folder.nodes()[0].authority, "fl.example.org")
    server.close()


def test_a_node_that_was_half_made_is_made_again(tmp_path):
    folder = make_cluster(tmp_path / "c", [], ["north"], 9092, 8000, 10)
    for step in range(5):
        with killed_at(step):
            add_node(folder, "west", "localhost:9092")
        assert [node.name for node in folder.nodes()] == ["north"]
    add_node(folder, "west", "localhost:9092")
    assert [node.name for node in folder.nodes()] == ["north", "west"]
    assert {path.name for path in (folder.path / "nodes").iterdir()} == {"north", "west"}


# Before a SuperNode starts


BECOME: list[str] = []
"""The commands that would have replaced this process."""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A cluster of its own, in which Flower's programs are not started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Command, "become", lambda command: BECOME.append(str(command)))
    return make_cluster(tmp_path / "c", [], ["north", "south"], *free_ports(2), 10)


def start(
    folder: ServerFolder, *words: str, config: str = "partition-id=0 num-partitions=2"
) -> int:
    command = ("--folder", folder.path, "supernode", "north", "--node-config", config, "--cold")
    return exit_status(*command, *words)


def test_a_supernode_starts_before_its_superlink(site, capsys):
    assert start(site) == 0
    printed = capsys.readouterr().out
    address = site.node("north").superlink
    assert "WRONG" not in printed
    (command,) = [line for line in printed.splitlines() if line.startswith("$ ")]
    assert f"flower-supernode --superlink {address}" in command
    assert command == f"$ {BECOME[-1]}"


def test_a_superlink_is_started_by_the_command_that_is_shown(site, capsys):
    assert exit_status("--folder", site.path, "superlink", "--bind", "127.0.0.1") == 0
    lines = capsys.readouterr().out.splitlines()
    (command,) = [line for line in lines if line.startswith("$ ")]
    assert "patient_flower.py flower-superlink --host" in command
    assert command == f"$ {BECOME[-1]}"


def test_flowers_programs_are_started_with_more_time(site, monkeypatch):
    """The patient program stands before each of them, and after the parent of forked clients."""
    started = []
    monkeypatch.setattr(Command, "become", lambda command: started.append(command.words))
    assert exit_status("--folder", site.path, "superlink", "--bind", "127.0.0.1") == 0
    assert start(site) == 0
    patient = [sys.executable, "-P", patient_flower.__file__]
    of_server, of_node = started
    assert of_server[:4] == [*patient, "flower-superlink"]
    parent = [sys.executable, "-P", forked_clients.__file__, forked_clients.COLD]
    assert of_node[:8] == [*parent, *patient, "flower-supernode"]


@pytest.mark.parametrize("path", ["~/north", "~/east"])
def test_a_node_on_the_servers_machine_is_called_by_its_name(site, path, capsys):
    """The pages name the folder that was copied to a node's machine."""
    command = ("--folder", site.path, "supernode", path, "--node-config", "partition-id=0")
    assert exit_status(*command) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "there: north, south" in error
    assert ("is called by its name, north" in error) == (path == "~/north")


def test_a_wrong_configuration_is_wrong_usage_and_what_may_come_yet_is_not(site, tmp_path):
    """The services try again after 1, and not after 2."""
    share = "partition-id=0 num-partitions=1"
    for wrong in ("", f'{share} device="gpu"'):
        assert start(site, config=wrong) == 2
    assert start(site, "--superlink", "localhost") == 2
    assert start(site, "--port", "65536") == 2
    assert start(site, config=f'partition-id=0 data-path="{tmp_path}/not-mounted-yet"') == 1
    assert start(site, config='partition-id=0 num-partitions=1 device="cuda:99"') == 1


def test_a_private_key_that_others_can_read(site, capsys):
    key = site.node("north").key
    for wrong in (0o640, 0o604, 0o620):
        key.chmod(wrong)
        assert start(site) == 1
        assert f"mode {wrong:04o}; chmod 600 {key}" in capsys.readouterr().err.replace("\n", "")


def test_a_port_of_a_node_that_is_taken(site, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert start(site, "--port", str(port)) == 1
    assert (
        f"the SuperNode (its own API) cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
    )


# What Flower is told


def test_flower_reads_the_commands(folder):
    command = flower_superlink(folder, "0.0.0.0")
    assert command.words[0] == "flower-superlink"
    read = _parse_args_run_superlink().parse_args(command.words[1:])
    assert (read.host, read.port) == ("127.0.0.1", 8000)  # whoever reaches it runs code on nodes
    assert read.fleet_api_address == "0.0.0.0:9092"
    assert read.enable_supernode_auth
    assert not read.insecure
    assert not read.runtime_dependency_install
    config = 'partition-id=0 data-path="/data/my graphs/a.pt"'
    of_node = flower_supernode(folder.node("north"), "fl.example.org:9092", config, 9094)
    read = _parse_args_run_supernode().parse_args(of_node.words[1:])
    assert (read.host, read.port) == ("127.0.0.1", 9094)
    assert (read.superlink, read.node_config) == ("fl.example.org:9092", config)
    assert not read.insecure
    for environment in (command.environment, of_node.environment):
        assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
        assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"


def test_what_is_printed_is_what_runs(folder):
    """A shell that is given the printed line runs the same words with the same variables."""
    program = "import os, sys; print(sys.argv[1:], os.environ['A'])"
    command = Command([sys.executable, "-c", program, "x y", "'q'"], {"A": "b c"})
    done = subprocess.run(["sh", "-c", str(command)], capture_output=True, text=True)
    assert done.stdout == "['x y', \"'q'\"] b c\n"
    last = shlex.split(str(flower_superlink(folder, "0.0.0.0")))[-1]
    assert last == "--disable-runtime-dependency-installation"


# Runs and registrations, with a `flwr` of a few lines

FAKE = """#!/bin/sh
echo "$*" >> "$FAKE/asked"
case "$1 $2" in
"supernode list") echo "{\\"success\\": true, \\"nodes\\": [$(cat "$FAKE/nodes")]}" ;;
"supernode register")
    case $3 in
    *north*) echo '{"success": true, "node-id": 41}' ;;
    *) echo "Public key already in use" >&2; exit 1 ;;
    esac ;;
"supernode unregister")
    if [ -e "$FAKE/gone" ]; then echo "[code: 24] Node ID not found for account." >&2; exit 1; fi
    echo '{"success": true}' ;;
run*)
    if [ -e "$FAKE/slow" ]; then sleep 0.5; fi
    echo 'Using SuperLink: cluster'; echo '{"success": true, "run-id": "7"}' ;;
log*) while [ ! -e "$FAKE/over" ]; do sleep 0.05; done ;;
stop*)
    if [ -e "$FAKE/late" ]; then mkdir -p "$RUN" && cp "$FAKE/late" "$RUN/summary.json"; fi
    touch "$FAKE/over"; echo '{"success": true}' ;;
list*)
    if [ -e "$FAKE/summary" ]; then mkdir -p "$RUN" && cp "$FAKE/summary" "$RUN/summary.json"; fi
    status=$(head -n 1 "$FAKE/statuses"); sed -i 1d "$FAKE/statuses"
    echo "{\\"success\\": true, \\"runs\\": [{\\"status\\": \\"$status\\", \\"status-details\\": \\"as told, 41\\",
        \\"run-id\\": \\"7\\", \\"elapsed\\": 1, \\"pending-at\\": \\"\\"}]}" ;;
esac
"""


@pytest.fixture
def fake(tmp_path, monkeypatch, folder):
    (tmp_path / "flwr").write_text(FAKE)
    (tmp_path / "flwr").chmod(0o755)
    (tmp_path / "over").touch()
    (tmp_path / "nodes").touch()
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("RUN", str(tmp_path / "results" / "one"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(run, "POLL", 0.01)
    monkeypatch.setattr(run.time, "sleep", lambda seconds: None)
    (folder.path / "registered.json").unlink(missing_ok=True)
    return tmp_path


def answer(fake: Path, *statuses: str, summary: dict | None = None) -> None:
    (fake / "statuses").write_text("".join(f"{status}\n" for status in statuses))
    if summary is not None:
        (fake / "summary").write_text(json.dumps(summary))


def submitted(folder, fake, retries=0, **settings) -> int:
    return run.run_to_end(
        folder, {"results-dir": str(fake / "results"), "run-name": "one"} | settings, retries
    )


def node(identity: int, status: str) -> str:
    return json.dumps(
        {"node-id": str(identity), "status": status, "online-at": "then", "offline-at": "then"}
    )


def recorded(fake: Path, word: str) -> list[str]:
    return [line for line in (fake / "asked").read_text().splitlines() if line.startswith(word)]


def test_a_run_tells_how_it_ended(folder, fake, capsys):
    completed = {"status": "completed", "metrics": {"roc_auc": 0.75}}
    answer(fake, "running", "finished:completed", summary=completed)
    assert submitted(folder, fake) == 0
    assert "75.0%" in capsys.readouterr().out
    assert registry.read_names(folder, registry.RUNS)["7"] == str(fake / "results" / "one")
    shutil.rmtree(fake / "results")
    failed = {"status": "failed", "error": "too few good replies"}
    answer(fake, "finished:completed", summary=failed)
    assert submitted(folder, fake) == 1
    said = capsys.readouterr().out
    assert "too few good replies" in said
    assert "run-name=one resume=true" not in said  # it has left nothing to go on with


def test_retries_go_on_from_the_checkpoint(folder, fake, monkeypatch):
    answer(
        fake,
        "finished:failed",
        "finished:failed",
        "finished:completed",
        summary={"status": "completed"},
    )
    places = fake / "results" / "one"
    monkeypatch.setattr(
        registry,
        "write_names",
        lambda *arguments: (
            places.mkdir(parents=True, exist_ok=True),
            (places / "config.toml").touch(),
        ),
    )
    assert submitted(folder, fake, retries=3) == 0
    assert ["resume=true" in line for line in recorded(fake, "run")] == [False, True, True]


def test_retries_end_where_the_server_began_a_run_that_cannot_be_gone_on_with(
    folder, fake, monkeypatch
):
    def began(*arguments):
        (fake / "results" / "one").mkdir(parents=True)
        (fake / "results" / "one" / "rounds.csv").touch()

    for outcome, retries, runs in (("finished:failed", 2, 3), ("finished:stopped", 3, 1)):
        answer(fake, *[outcome] * 3)
        assert submitted(folder, fake, retries) == 1
        assert len(recorded(fake, "run")) == runs
        (fake / "asked").unlink()
    monkeypatch.setattr(registry, "write_names", began)
    answer(fake, "finished:failed", "finished:completed")
    assert submitted(folder, fake, retries=3) == 1
    assert len(recorded(fake, "run")) == 1


def test_a_revoked_node_is_neither_waited_for_nor_counted_nor_shown(
    folder, fake, monkeypatch, capsys
):
    monkeypatch.setattr(checks, "check_started", lambda folder: "answers")
    (fake / "nodes").write_text(f"{node(31415, 'online')}, {node(27182, 'unregistered')}")
    answer(fake, "finished:completed", "finished:completed", summary={"status": "completed"})
    assert submitted(folder, fake) == 0
    said = capsys.readouterr().out
    assert "waiting" not in said
    assert "nodes connected" not in said
    assert status.show(folder) == 0
    said = capsys.readouterr().out
    assert "31415" in said
    assert "27182" not in said


def test_a_node_that_a_new_superlink_has_not_heard_is_waited_for_and_named_so(
    folder, fake, monkeypatch, capsys
):
    """Flower counts it as online for a minute: the run began as with all nodes, and waited."""
    monkeypatch.setattr(run, "NODES_WAIT", 0.05)
    folder.flower_home.mkdir(exist_ok=True)
    registry.note_start(folder)
    os.utime(folder.flower_home / "started", (1000, 1000))
    with contextlib.closing(sqlite3.connect(folder.database)) as connection, connection:
        connection.execute("CREATE TABLE node (node_id, online_until, heartbeat_interval)")
        rows = [(31415, 1061, 30), (27182, 1059, 30)]
        connection.executemany("INSERT INTO node VALUES (?, ?, ?)", rows)
    registry.write_names(folder, {"north": "27182"})
    (fake / "nodes").write_text(f"{node(31415, 'online')}, {node(27182, 'online')}")
    answer(fake, "finished:completed", summary={"status": "completed"})
    assert submitted(folder, fake) == 0
    said = capsys.readouterr().out
    silent = "north (not heard since the SuperLink started)"
    assert f"waiting up to 0.05 s for {silent}\n" in said
    assert f"1 of 2 nodes connected; continuing without {silent}\n" in said


@pytest.mark.parametrize("has_summary", [False, True])
def test_a_server_app_that_was_killed_is_noticed_and_one_that_ended_is_not(
    folder, fake, monkeypatch, capsys, has_summary
):
    written = iter([True])
    monkeypatch.setattr(run, "is_written", lambda directory: next(written, False))
    answer(
        fake,
        *["running"] * 5,
        "finished:completed",
        summary={"status": "completed"} if has_summary else None,
    )
    assert submitted(folder, fake) == (0 if has_summary else 1)
    assert ("its ServerApp was killed" in capsys.readouterr().out) is not has_summary
    assert (len((fake / "statuses").read_text().split()) > 2) is not has_summary


def test_who_did_what_is_on_record(folder, fake, capsys, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "ada")
    (folder.path / "ledger-server.jsonl").unlink(missing_ok=True)
    register_nodes(folder, ["north"])
    assert exit_status("--folder", folder.path, "revoke", "north") == 0
    answer(fake, *["finished:completed"] * 2, summary={"status": "completed"})
    submitted(folder, fake)
    submitted(folder, fake, resume=True)
    assert exit_status("ledger", folder.path) == 0
    said = capsys.readouterr().out
    lines = re.findall(r"Z  (\w+) +(\w+) +by ada", said)
    assert lines == [
        ("registered", "north"),
        ("revoked", "north"),
        ("run", "one"),
        ("resumed", "one"),
    ]


@pytest.mark.parametrize(
    ("signum", "moment"),
    [(signal.SIGINT, "list"), (signal.SIGTERM, "list"), (signal.SIGTERM, "run")],
)
def test_a_signal_stops_the_run_at_the_superlink(folder, fake, signum, moment):
    """Also while the run is handed over."""
    (fake / "slow").touch()
    (fake / "over").unlink()
    answer(fake, *["running"] * 1000)
    main_thread = threading.main_thread().ident

    def interrupt() -> None:
        while not (fake / "asked").exists() or not recorded(fake, moment):
            threading.Event().wait(0.02)
        signal.pthread_kill(main_thread, signum)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert submitted(folder, fake, retries=3) == 128 + signum
    thread.join()
    assert recorded(fake, "stop") == ["stop 7 cluster --format json"]
    assert len(recorded(fake, "run")) == 1


def test_the_superlink_of_another_cluster_is_said_to_be_that(
    folder, fake, tmp_path, monkeypatch, capsys
):
    (fake / "flwr").write_text(
        "#!/bin/sh\necho Connection to the SuperLink is unavailable; exit 1\n"
    )
    foreign = make_cluster(tmp_path / "other", [], [], 9092, 8000, 1)
    assert status.show(ServerFolder(folder.path, *free_ports(2))) == 1
    said = capsys.readouterr().out
    assert said.count("the SuperLink does not run") == 1
    server = Server(*folder.server)
    try:
        assert status.show(ServerFolder(foreign.path, 9092, split_address(server.address)[1])) == 1
    finally:
        server.close()
    said = " ".join(capsys.readouterr().out.split())
    assert f"the SuperLink at {server.address} is another cluster's" in said
    assert "does not answer" not in said


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_damaged_database_is_named_before_anything_is_started(share, tmp_path, fake, capsys):
    folder = make_cluster(tmp_path / "one", [], [], *free_ports(2), 1)
    with contextlib.closing(sqlite3.connect(folder.database)) as connection, connection:
        connection.execute("CREATE TABLE node (node_id TEXT)")
        connection.executemany("INSERT INTO node VALUES (?)", [("x" * 1000,)] * 100)
    assert database.check_database(folder).endswith("sound")
    content = folder.database.read_bytes()
    folder.database.write_bytes(content[: int(share * len(content))])
    for command, stream in ("superlink", "err"), ("status", "out"):
        assert main(["cluster", "--folder", str(folder.path), command]) == 1
        said = " ".join(getattr(capsys.readouterr(), stream).split())
        assert f"{folder.database} is damaged (" in said
        assert "register every node anew" in said
    assert not (fake / "asked").exists()


def test_nodes_are_registered_once_and_revoked(folder, fake, capsys):
    register_nodes(folder, ["north"])
    assert registry.read_names(folder) == {"north": "41"}
    with pytest.raises(ClusterError, match="north is registered already, as 41"):
        register_nodes(folder, ["north"])
    with refuses("revoked-key", "already in use", "flwr supernode register", error=ClusterError):
        register_nodes(folder, ["south"])
    with pytest.raises(ClusterError, match=r"there is no public key .*west"):
        register_nodes(folder, ["west"])
    assert exit_status("--folder", folder.path, "revoke", "west") == 1
    assert "west is not registered; registered are north" in capsys.readouterr().err
    assert exit_status("--folder", folder.path, "revoke", "north") == 0
    assert recorded(fake, "supernode unregister") == [
        "supernode unregister 41 cluster --format json"
    ]
    assert registry.read_names(folder) == {}


@pytest.mark.parametrize("place", ["file", "file/results"])
def test_results_that_cannot_be_written_are_refused_before_a_run_is_sent(folder, fake, place):
    """By Flower the ServerApp would have written them to another folder."""
    (fake / "file").touch()
    results = str(fake / place)
    expected = f'results-dir = "{results}": {results}/one cannot be made ({fake / "file"} takes no'
    with refuses("unwritable", expected, error=ConfigError):
        submitted(folder, fake, **{"results-dir": results})
    assert not (fake / "asked").exists()


DAMAGED = ('{"north": "4', "", "[]", '"north"', '{"north": 41}', '{"north": ["41"]}')


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_names_of_nodes_are_named_and_kept(folder, fake, capsys, content):
    """They do not count as none: the next registration would lose the ids of all nodes."""
    path = folder.path / registry.NODES
    path.write_text(content, encoding="utf-8")
    commands = (["register", "north"], ["revoke", "north"], ["doctor"])
    for command in commands:
        assert exit_status("--folder", folder.path, *command) == 1
        output = capsys.readouterr()
        said = " ".join((output.out + output.err).split())
        assert f"{path} cannot be read (" in said
        assert str(registry.ledger_path(folder)) in said
    with refuses("damaged-names", "put a backup of it there", error=ClusterError):
        submitted(folder, fake)
    assert path.read_text(encoding="utf-8") == content
    assert not (fake / "asked").exists()


def test_a_superlink_that_starts_is_waited_for(folder, fake, monkeypatch, capsys):
    text = (fake / "flwr").read_text()
    silent = '#!/bin/sh\n[ -e "$FAKE/up" ] || { echo Connection to the SuperLink is unavailable; exit 1; }\n'
    (fake / "flwr").write_text(silent + text)
    monkeypatch.setattr("curvfed.extensions.cluster.commands.registry.SUPERLINK_START", -1.0)
    with pytest.raises(ClusterError, match="does not answer") as error:
        register_nodes(folder, ["north"])
    assert error.value.kind == SILENT
    monkeypatch.setattr("curvfed.extensions.cluster.commands.registry.SUPERLINK_START", LONG)
    monkeypatch.setattr(time, "sleep", lambda seconds: (fake / "up").touch())
    register_nodes(folder, ["north"])
    assert "registered: north as 41" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["methd=flatland"], 'did you mean "method"'),
        (["method=flatlnd"], 'did you mean "flatland"'),
        (["resume=true"], "resume = true and run-name ="),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_is_sent(
    folder, fake, capsys, pairs, message
):
    assert main(["cluster", "--folder", str(folder.path), "run", *pairs]) == 2
    assert message in capsys.readouterr().err
    assert not (fake / "asked").exists()


def test_a_run_without_a_superlink_is_refused_before_anything_is_sent(tmp_path, fake, capsys):
    folder = make_cluster(tmp_path / "one", [], [], *free_ports(2), 1)
    assert main(["cluster", "--folder", str(folder.path), "run", "method=fedavg"]) == 1
    assert f"--folder {folder.path} superlink` starts it" in capsys.readouterr().err
    assert not (fake / "asked").exists()


@pytest.mark.parametrize(
    ("hosts", "address"),
    [
        (["*.example.org", "fl.example.org"], "fl.example.org:9092"),
        (["2001:db8::7"], "[2001:db8::7]:9092"),
        ([], "localhost:9092"),
    ],
)
def test_a_node_gets_an_address_to_which_it_can_connect(hosts, address, tmp_path):
    folder = make_cluster(tmp_path / "c", hosts, ["north"], 9092, 8000, 10)
    assert folder.node("north").superlink == folder.superlink == address
    assert split_address(address) == (address.rpartition(":")[0].strip("[]"), 9092)


def test_a_certificate_is_not_renewed_for_longer_than_its_authority_has(tmp_path, capsys):
    folder = make_cluster(tmp_path / "c", [], [], 9092, 8000, 10)
    before = {path: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    assert exit_status("--folder", folder.path, "renew", "--days", "99999999") == 2
    assert "days is 99999999; allowed is 1 to 3649" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.path.iterdir() if path.is_file()} == before


def test_retries_do_not_take_up_the_run_of_another_command(folder, fake):
    (fake / "results" / "one").mkdir(parents=True)
    (fake / "results" / "one" / "config.toml").touch()
    answer(fake, "finished:failed", "finished:completed")
    with pytest.raises(
        ConfigError,
        match=r'run-name = "one": .*one exists; allowed is a new name, or resume = true',
    ):
        submitted(folder, fake, retries=3)
    assert not (fake / "asked").exists()


def test_a_resumed_run_with_a_changed_key_is_refused_before_nodes_are_asked(folder, fake):
    settings = {"results-dir": str(fake / "results"), "run-name": "one"}
    begun = RunDirectory.open(parse(settings))
    begun.lock.release()
    answer(fake, "finished:completed")
    with pytest.raises(ConfigError, match="seed = 5, but the run began with 0"):
        submitted(folder, fake, resume=True, seed=5)
    assert not (fake / "asked").exists()


@pytest.mark.parametrize(
    ("file", "line", "text"),
    [
        ("cluster.toml", "", "api-port is missing; allowed is a line such as api-port = 8000"),
        ("cluster.toml", 'api-port = "x"', r"api-port = 'x'; allowed is a line such as"),
        ("nodes/north/node.toml", "", 'superlink is missing; .* superlink = "fl.example.org:9092"'),
    ],
)
def test_an_edited_file_of_settings_is_refused_by_name_and_line(file, line, text, tmp_path):
    folder = make_cluster(tmp_path / "c", [], ["north"], 9092, 8000, 10)
    path = folder.path / file
    kept = [
        old
        for old in path.read_text().splitlines()
        if not old.startswith("api-port" if file == "cluster.toml" else "superlink")
    ]
    path.write_text("\n".join([*kept, line]))
    with pytest.raises(ClusterError, match=f"{path.name}: {text}"):
        _ = ServerFolder.open(folder.path).find_node("north").superlink


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("server.crt", r"its names are not known; give them by --host"),
        ("ca.key", r"the authority cannot sign: .*; put back ca\.crt and ca\.key of `init`"),
        ("ca.crt", r"the authority cannot sign: .*; put back ca\.crt and ca\.key of `init`"),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_renewal_without_a_file_that_it_needs_says_so(file, text, is_there, tmp_path, capsys):
    folder = make_cluster(tmp_path / "c", [], [], 9092, 8000, 10)
    (folder.path / file).unlink()
    if is_there:
        (folder.path / file).write_text("damaged")
    assert exit_status("--folder", folder.path, "renew") == 1
    assert re.search(text, capsys.readouterr().err)


def test_a_missing_certificate_is_renewed_with_its_names(tmp_path):
    folder = make_cluster(tmp_path / "c", [], [], 9092, 8000, 10)
    folder.server[0].unlink()
    assert exit_status("--folder", folder.path, "renew", "--host", "fl.example.org") == 0
    assert checks.check_pair(folder.server, folder.authority[0])


def test_an_authority_with_another_key_does_not_renew(tmp_path, capsys):
    folder = make_cluster(tmp_path / "c", [], [], 9092, 8000, 10)
    other = make_cluster(tmp_path / "d", [], [], 9092, 8000, 10)
    folder.authority[1].write_bytes(other.authority[1].read_bytes())
    before = folder.server[0].read_bytes()
    assert exit_status("--folder", folder.path, "renew") == 1
    assert "ca.key is not the key of" in capsys.readouterr().err
    assert folder.server[0].read_bytes() == before


@pytest.mark.parametrize(
    "words", [["revoke", "north"], ["register"], ["run", "method=fedavg"], ["add", "east"]]
)
def test_a_user_without_rights_changes_nothing(words, folder, fake, monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert exit_status("--folder", folder.path, *words) == 1
    assert f"this user may not write in {folder.path}; run this" in capsys.readouterr().err
    assert not (fake / "asked").exists()


def test_a_run_that_cannot_be_recorded_is_stopped(folder, fake, monkeypatch, capsys):
    def fill(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(registry, "write_names", fill)
    answer(fake, "finished:stopped")
    assert submitted(folder, fake) == 1
    assert recorded(fake, "stop")
    assert "the run was stopped, for it cannot be recorded in" in capsys.readouterr().out


def test_a_fault_of_rights_is_one_line(folder, monkeypatch, capsys):
    def refuse(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied", "/srv/north/node.key")

    monkeypatch.setattr(status, "show", refuse)
    assert exit_status("--folder", folder.path, "status") == 1
    assert capsys.readouterr().err == "error: /srv/north/node.key: Permission denied\n"


def test_a_node_that_flower_has_removed_is_revoked_by_name_alone(folder, fake, capsys):
    registry.write_names(folder, {"north": "41"})
    (fake / "gone").touch()
    assert exit_status("--folder", folder.path, "revoke", "42") == 1
    assert "Node ID not found" in capsys.readouterr().err
    assert exit_status("--folder", folder.path, "revoke", "north") == 0
    assert registry.read_names(folder) == {}


def test_the_start_of_a_moved_cluster_mends_its_path_and_port_for_flower(tmp_path, monkeypatch):
    make_cluster(tmp_path / "old", [], [], free_ports(1)[0], 8000, 10)
    moved = tmp_path / "new place"
    (tmp_path / "old").rename(moved)
    (moved / "cluster.toml").write_text(
        (moved / "cluster.toml").read_text().replace("8000", str(free_ports(1)[0]))
    )
    monkeypatch.setattr(Command, "become", lambda command: None)
    assert exit_status("--folder", moved, "superlink", "--bind", "127.0.0.1") == 0
    flower = tomllib.loads((moved / "flwr" / "config.toml").read_text())["superlink"]
    assert flower["default"] == "cluster"
    assert flower["cluster"]["root-certificates"] == str(moved / "ca.crt")
    assert flower["cluster"]["address"] == f"127.0.0.1:{ServerFolder.open(moved).api_port}"

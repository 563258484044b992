"""The commands of a cluster: its files, what they hand to Flower, processes in the background, checks before a start."""

import contextlib
import datetime
import json
import os
import shlex
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from flwr.cli.supernode.register import try_load_public_key
from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

from deployments.cluster import certificates, commands, preflight, registry, submit
from deployments.cluster.__main__ import main
from deployments.cluster.commands import Command
from deployments.cluster.daemons import Daemon, running, stop_all
from deployments.cluster.errors import ClusterError
from deployments.cluster.folder import NodeFolder, ServerFolder
from deployments.isolated import free_ports
from server_app.run_lock import RunLock, is_written
from strategies.config import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "one"
    return ServerFolder.make(path, ["fl.example.org", "192.0.2.7"], ["north", "south"], 9092, 8000, 365)


# --- Files ------------------------------------------------------------------------------------------------------------


def test_private_keys_are_private(folder):
    private = [folder.authority[1], folder.server[1], *(node.key for node in folder.nodes())]
    assert [mode(path) for path in private] == [0o600] * 4
    assert [mode(path) for path in (folder.path, *(node.path for node in folder.nodes()))] == [0o700] * 3
    public = [path for path in folder.path.rglob("*") if path.is_file() and path not in private]
    assert not [path for path in public if b"PRIVATE" in path.read_bytes()]


def test_a_node_folder_has_all_that_the_node_needs_and_no_more(folder):
    north = NodeFolder(folder.path / "nodes" / "north")
    assert {path.name for path in north.path.iterdir()} == {"node.key", "node.key.pub", "ca.crt", "node.toml", "flwr"}
    assert north.authority.read_bytes() == folder.authority[0].read_bytes()
    assert north.superlink == "fl.example.org:9092"


def test_nothing_is_overwritten(folder, capsys):
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    for words in (["init"], ["init", "--node", "west"], ["add", "north"]):
        assert main(["--folder", str(folder.path), *words]) == 1
    assert "is not overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["../out", "", "a b", ".hidden", "x" * 65])
def test_names_that_are_no_file_names_are_refused_before_anything_is_made(name, tmp_path):
    with pytest.raises(ClusterError, match="is no name of a node"):
        ServerFolder.make(tmp_path / "c", [], [name], 9092, 8000, 1)
    assert not (tmp_path / "c").exists()


def test_a_host_that_is_none_is_refused(tmp_path):
    with pytest.raises(ClusterError, match="'https://x' is neither a host name nor an address"):
        ServerFolder.make(tmp_path / "c", ["https://x"], [], 9092, 8000, 1)


def test_flower_takes_the_keys(folder):
    """By Flower's own reader of public keys, and each private key fits its public one."""
    from cryptography.hazmat.primitives import serialization

    for node in folder.nodes():
        private = serialization.load_ssh_private_key(node.key.read_bytes(), None)
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        assert try_load_public_key(node.public_key) == public


# --- Certificates -----------------------------------------------------------------------------------------------------


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
    context = ssl.create_default_context(cafile=str(authority))
    host, port = preflight.split_address(server.address)
    with socket.create_connection((host, port), 5) as plain, context.wrap_socket(plain, server_hostname=name):
        pass


@pytest.fixture
def server(folder):
    server = Server(*folder.server)
    yield server
    server.close()


@pytest.mark.parametrize("name", ["fl.example.org", "192.0.2.7", "localhost", "127.0.0.1"])
def test_the_certificate_is_for_its_names(folder, server, name):
    handshake(server, folder.authority[0], name)


@pytest.mark.parametrize("name", ["evil.example.org", "example.org", "192.0.2.8"])
def test_and_for_no_others(folder, server, name):
    with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|doesn't match|not valid for"):
        handshake(server, folder.authority[0], name)


def test_openssl_agrees(folder):
    """Another implementation checks the chain, with the strict rules of RFC 5280."""
    openssl = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", str(folder.authority[0])]
    try:
        done = subprocess.run([*openssl, str(folder.server[0])], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl on this machine")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_superlink_is_known_by_its_authority(folder, server, tmp_path):
    preflight.check_superlink(server.address, folder.authority[0])
    other = tmp_path / "ca.crt"
    certificates.make_authority(other, tmp_path / "ca.key")
    with pytest.raises(ClusterError, match=r"is not the one that .*ca\.crt vouches for"):
        preflight.check_superlink(server.address, other)


def test_an_authority_that_is_no_certificate(tmp_path):
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(ClusterError, match="is no certificate"):
        preflight.check_superlink("127.0.0.1:1", tmp_path / "ca.crt")


def test_who_speaks_no_tls_is_named(folder):
    def answer() -> None:
        plain, _ = listener.accept()
        with plain:
            plain.sendall(b"HTTP/1.1 400 no\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ClusterError, match="does not speak TLS"):
            preflight.check_superlink(f"127.0.0.1:{listener.getsockname()[1]}", folder.authority[0])


def test_a_superlink_that_is_not_there_yet_is_only_told_of(folder, capsys):
    preflight.check_superlink(f"127.0.0.1:{free_ports(1)[0]}", folder.authority[0])
    assert "no SuperLink at" in capsys.readouterr().out


@pytest.mark.parametrize("address", ["localhost", ":9092", "host:port", "host:"])
def test_addresses_that_are_none(address):
    with pytest.raises(ClusterError, match="is no address; allowed is HOST:PORT"):
        preflight.split_address(address)


def test_a_renewed_certificate_is_for_the_same_names_by_the_same_authority(tmp_path):
    folder = ServerFolder.make(tmp_path / "c", ["fl.example.org"], ["north"], 9092, 8000, 10)
    authority, before = folder.authority[0].read_bytes(), folder.server[0].read_bytes()
    folder.renew([], 100)
    assert folder.authority[0].read_bytes() == authority
    assert folder.server[0].read_bytes() != before
    left = certificates.valid_until(folder.server[0]) - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=99) < left < datetime.timedelta(days=100)
    assert mode(folder.server[1]) == 0o600
    server = Server(*folder.server)
    for name in ("fl.example.org", "localhost"):
        handshake(server, folder.node("north").authority, name)
    server.close()


def test_a_certificate_that_is_over_is_refused(tmp_path, folder, capsys):
    over = tmp_path / "over.crt", tmp_path / "over.key"
    certificates.make_server(*over, folder.authority, [], 0)
    with pytest.raises(ClusterError, match=r"over.crt ended \d days ago; .* renew"):
        preflight.check_certificate(over[0])
    soon = ServerFolder.make(tmp_path / "soon", [], [], 9092, 8000, 20)
    preflight.check_certificate(soon.server[0])
    assert "ends in 19 days" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "fl.example.org:9092"], "'fl.example.org:9092' is neither a host name nor an address"),
        (["--node", "a", "--node", "a"], "two have one name"),
        (["--days", "0"], "days is 0; allowed is 1 or more"),
    ],
)
def test_a_wrong_word_leaves_nothing_that_stands_in_the_way(words, message, tmp_path, capsys):
    assert main(["--folder", str(tmp_path / "c"), "init", *words]) == 1
    assert message in capsys.readouterr().err
    assert main(["--folder", str(tmp_path / "c"), "init", "--host", "fl.example.org", "--node", "a"]) == 0


def test_a_folder_that_others_could_read_is_closed(tmp_path):
    (tmp_path / "c").mkdir(mode=0o755)
    assert mode(ServerFolder.make(tmp_path / "c", [], [], 9092, 8000, 1).path) == 0o700


def test_down_of_what_is_not_there_says_so(tmp_path, capsys):
    assert main(["--folder", str(tmp_path), "down"]) == 1
    assert main(["--folder", str(tmp_path), "down", "north"]) == 1
    assert capsys.readouterr().err.count("there is no") == 2


# --- What Flower is told ----------------------------------------------------------------------------------------------


def test_flower_reads_the_superlink_command(folder):
    command = commands.superlink(folder, "0.0.0.0")
    assert command.words[0] == "flower-superlink"
    read = _parse_args_run_superlink().parse_args(command.words[1:])
    assert (read.host, read.port) == ("127.0.0.1", 8000)  # whoever reaches it runs code on every node
    assert read.fleet_api_address == "0.0.0.0:9092"
    assert read.enable_supernode_auth
    assert not read.insecure
    assert not read.runtime_dependency_install


def test_flower_reads_the_supernode_command(folder):
    config = 'partition-id=0 data-path="/data/my graphs/a.pt"'
    command = commands.supernode(folder.node("north"), "fl.example.org:9092", config, 9094)
    read = _parse_args_run_supernode().parse_args(command.words[1:])
    assert (read.host, read.port, read.superlink, read.node_config) == (
        "127.0.0.1",
        9094,
        "fl.example.org:9092",
        config,
    )
    assert not read.insecure


def test_what_is_printed_is_what_runs(folder):
    """A shell that is given the printed line runs the same words with the same variables."""
    command = Command(
        [sys.executable, "-c", "import os, sys; print(sys.argv[1:], os.environ['A'])", "x y", "'q'"], {"A": "b c"}
    )
    done = subprocess.run(["sh", "-c", str(command)], capture_output=True, text=True)
    assert done.stdout == "['x y', \"'q'\"] b c\n"
    assert shlex.split(str(commands.superlink(folder, "0.0.0.0")))[-1] == "--disable-runtime-dependency-installation"


def test_flower_tells_nobody_of_what_is_done_here(folder):
    for command in (commands.superlink(folder, "::"), commands.supernode(folder.node("north"), "x:1", "a=1", 1)):
        assert command.environment["FLWR_TELEMETRY_ENABLED"] == "0"


# --- Processes in the background --------------------------------------------------------------------------------------

FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
print("both are up")
child.wait()
"""


def test_a_daemon_is_started_found_and_stopped_with_its_children(tmp_path):
    daemon = Daemon(tmp_path / "running", "one")
    assert daemon.start(Command([sys.executable, "-u", "-c", FAMILY]), lambda said: "both are up" in said, 30)
    process = daemon.process()
    family = [process, *process.children(recursive=True)]
    assert len(family) == 2
    assert Daemon(tmp_path / "running", "one").process() == process
    assert [found.name for found in running(tmp_path / "running")] == ["one"]
    with pytest.raises(ClusterError, match="one is running already"):
        daemon.start(Command(["true"]), lambda said: True, 1)
    assert stop_all([tmp_path / "running"]) == ["one"]
    assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert stop_all([tmp_path / "running"]) == []


def test_a_daemon_that_ends_before_it_is_up_shows_its_log(tmp_path):
    daemon = Daemon(tmp_path, "one")
    daemon.folder.joinpath("one.log").write_text("up, said an earlier one\n")
    with pytest.raises(ClusterError, match=r"one ended, exit status 3\n(.*\n)?no such key"):
        daemon.start(
            Command([sys.executable, "-c", "print('no such key'); raise SystemExit(3)"]), lambda said: "up" in said, 30
        )
    assert daemon.process() is None


def test_a_daemon_that_is_not_up_in_time_runs_on(tmp_path):
    daemon = Daemon(tmp_path, "one")
    assert not daemon.start(Command(["sleep", "300"]), lambda said: False, 0.3)
    assert daemon.stop()


def test_a_later_process_of_the_same_number_is_left_alone(tmp_path):
    daemon = Daemon(tmp_path, "one")
    process = psutil.Process()
    (tmp_path / "one.pid").write_text(json.dumps({"pid": process.pid, "created": process.create_time() - 100}))
    assert daemon.process() is None
    assert not daemon.stop()


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            ClusterError, match=f"the SuperLink cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            preflight.check_port("127.0.0.1", port, "the SuperLink")


# --- Runs and registrations, with a `flwr` of a few lines ---------------------------------------------------------------

FAKE = """#!/bin/sh
echo "$*" >> "$FAKE/asked"
case "$1 $2" in
"supernode list") echo '{"success": true, "nodes": []}' ;;
"supernode register")
    case $3 in
    *north*) echo '{"success": true, "node-id": 41}' ;;
    *) echo "Public key already in use" >&2; exit 1 ;;
    esac ;;
"supernode unregister") echo '{"success": true}' ;;
run*)
    if [ -e "$FAKE/slow" ]; then sleep 0.5; fi
    echo 'Using SuperLink: cluster'; echo '{"success": true, "run-id": "7"}' ;;
log*) while [ ! -e "$FAKE/over" ]; do sleep 0.05; done ;;
stop*) touch "$FAKE/over"; echo '{"success": true}' ;;
list*)
    if [ -e "$FAKE/summary" ]; then mkdir -p "$RUN" && cp "$FAKE/summary" "$RUN/summary.json"; fi
    status=$(head -n 1 "$FAKE/statuses"); sed -i 1d "$FAKE/statuses"
    echo "{\\"success\\": true, \\"runs\\": [{\\"status\\": \\"$status\\", \\"status-details\\": \\"as told\\"}]}" ;;
esac
"""


@pytest.fixture
def fake(tmp_path, monkeypatch, folder):
    (tmp_path / "flwr").write_text(FAKE)
    (tmp_path / "flwr").chmod(0o755)
    (tmp_path / "over").touch()
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("RUN", str(tmp_path / "results" / "one"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(submit, "POLL", 0.01)
    monkeypatch.setattr(submit.time, "sleep", lambda seconds: None)
    (folder.path / "registered.json").unlink(missing_ok=True)
    return tmp_path


def answer(fake: Path, *statuses: str, summary: dict | None = None) -> None:
    (fake / "statuses").write_text("".join(f"{status}\n" for status in statuses))
    if summary is not None:
        (fake / "summary").write_text(json.dumps(summary))


def submitted(folder, fake, retries=0) -> int:
    return submit.run(folder, {"results-dir": str(fake / "results"), "run-name": "one"}, retries)


def asked(fake: Path, word: str) -> list[str]:
    return [line for line in (fake / "asked").read_text().splitlines() if line.startswith(word)]


def test_a_run_that_completes(folder, fake, capsys):
    answer(fake, "running", "finished:completed", summary={"status": "completed", "metrics": {"roc_auc": 0.75}})
    assert submitted(folder, fake) == 0
    assert "0.7500" in capsys.readouterr().out
    assert submit.names(folder)["7"] == "one"


def test_a_run_that_fails_says_why(folder, fake, capsys):
    answer(fake, "finished:completed", summary={"status": "failed", "error": "too few good replies"})
    assert submitted(folder, fake) == 1
    said = capsys.readouterr().out
    assert "too few good replies" in said
    assert "run-name=one resume=true" not in said  # it has left nothing to go on with


def test_an_earlier_summary_says_nothing_about_this_run(folder, fake, capsys):
    (fake / "results" / "one").mkdir(parents=True)
    (fake / "results" / "one" / "summary.json").write_text(json.dumps({"status": "failed", "error": "of before"}))
    answer(fake, "finished:failed")
    assert submitted(folder, fake) == 1
    said = capsys.readouterr().out
    assert "as told" in said
    assert "of before" not in said


def test_retries_go_on_from_the_checkpoint(folder, fake, monkeypatch):
    answer(fake, "finished:failed", "finished:failed", "finished:completed", summary={"status": "completed"})
    places = fake / "results" / "one"
    monkeypatch.setattr(submit, "_note_name", lambda *told: (places.mkdir(parents=True, exist_ok=True),
                                                            (places / "config.toml").touch()))  # fmt: skip
    assert submitted(folder, fake, retries=3) == 0
    assert ["resume=true" in line for line in asked(fake, "run")] == [False, True, True]


def test_retries_do_not_take_up_the_run_of_another_command(folder, fake):
    (fake / "results" / "one").mkdir(parents=True)
    (fake / "results" / "one" / "config.toml").touch()
    answer(fake, "finished:failed", "finished:completed")
    assert submitted(folder, fake, retries=3) == 1
    assert ["resume=true" in line for line in asked(fake, "run")] == [False]


def test_a_run_that_somebody_stopped_stays_stopped(folder, fake):
    answer(fake, "finished:stopped", "finished:completed")
    assert submitted(folder, fake, retries=3) == 1
    assert len(asked(fake, "run")) == 1


def test_a_signal_while_a_run_is_handed_over_stops_it(folder, fake):
    (fake / "slow").touch()
    answer(fake, *["running"] * 1000)
    main_thread = threading.main_thread().ident

    def interrupt() -> None:
        while not (fake / "asked").exists() or not asked(fake, "run"):
            threading.Event().wait(0.02)
        signal.pthread_kill(main_thread, signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert submitted(folder, fake) == 128 + signal.SIGTERM
    thread.join()
    assert asked(fake, "stop") == ["stop 7 cluster --format json"]


def test_retries_end(folder, fake):
    answer(fake, *["finished:failed"] * 3)
    assert submitted(folder, fake, retries=2) == 1
    assert len(asked(fake, "run")) == 3


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_at_the_superlink(folder, fake, signum, capsys):
    (fake / "over").unlink()
    answer(fake, *["running"] * 1000)
    main_thread = threading.main_thread().ident

    def interrupt() -> None:
        while not (fake / "asked").exists() or not asked(fake, "log"):
            threading.Event().wait(0.05)
        signal.pthread_kill(main_thread, signum)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert submitted(folder, fake, retries=3) == 128 + signum
    thread.join()
    assert asked(fake, "stop") == ["stop 7 cluster --format json"]
    assert len(asked(fake, "run")) == 1


def test_nodes_are_registered_once_and_revoked(folder, fake, capsys):
    registry.register(folder, ["north"])
    assert registry.known(folder) == {"north": "41"}
    with pytest.raises(ClusterError, match="north is registered already, as 41"):
        registry.register(folder, ["north"])
    with pytest.raises(ClusterError, match=r"Public key already in use\n  by: .*flwr supernode register"):
        registry.register(folder, ["south"])
    with pytest.raises(ClusterError, match=r"there is no public key .*west"):
        registry.register(folder, ["west"])
    with pytest.raises(ClusterError, match="west is not registered; registered are north"):
        registry.revoke(folder, ["west"])
    registry.revoke(folder, ["north"])
    assert asked(fake, "supernode unregister") == ["supernode unregister 41 cluster --format json"]
    assert registry.known(folder) == {}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [(["methd=flatland"], "did you mean 'method'"), (["method=flatlnd"], 'did you mean "flatland"'),
     (["resume=true"], "resume=true needs run-name")],
)  # fmt: skip
def test_a_wrong_configuration_is_refused_before_anything_is_sent(folder, fake, capsys, pairs, message):
    assert main(["--folder", str(folder.path), "run", *pairs]) == 2
    assert message in capsys.readouterr().err
    assert not (fake / "asked").exists()


# --- One server per run directory -------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from pathlib import Path
from server_app.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(300)
"""


def test_a_run_directory_has_one_writer(tmp_path):
    assert not is_written(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True
    )
    assert holder.stdout.readline() == "held\n"
    assert is_written(tmp_path)
    with pytest.raises(ConfigError, match="another process still writes this run"):
        RunLock(tmp_path).acquire(patience=0.1)
    threading.Timer(0.5, lambda: os.kill(holder.pid, signal.SIGKILL)).start()
    lock = RunLock(tmp_path)
    lock.acquire(patience=20)  # nothing of a killed writer is left
    holder.wait()
    holder.stdout.close()
    assert is_written(tmp_path)
    lock.release()
    assert not is_written(tmp_path)
    assert not is_written(tmp_path / "nowhere")

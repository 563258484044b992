"""Who answers at a SuperLink's address, by gRPC, through proxies, by the node's address."""

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from fleet import fleet_server, listening, plain_http, proxy, silence, web_server
from paused_clock import PausedClock

from curvfed.deployments.processes import LOOPBACK, flower_environment, free_ports
from curvfed.extensions.cluster.commands import ClusterError, certificates, status
from curvfed.extensions.cluster.commands import link as superlink
from curvfed.extensions.cluster.commands.folder import CONNECTS, NodeFolder, ServerFolder
from curvfed.extensions.cluster.commands.link import ForeignError, Link, SilentError
from curvfed.extensions.cluster.commands.setup import make_cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """At its ports nothing answers: they stay taken, so that no other program gets them."""
    with socket.socket() as fleet, socket.socket() as control:
        for listener in (fleet, control):
            listener.bind((LOOPBACK, 0))
        ports = fleet.getsockname()[1], control.getsockname()[1]
        yield make_cluster(tmp_path_factory.mktemp("link") / "c", [], ["north"], *ports, 10)


@pytest.fixture(scope="module")
def port(folder):
    with fleet_server(folder) as port:
        yield port


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in {*superlink.PROXIES, *superlink.NO_PROXIES}:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What answers here does so, however busy the machine is."""
    monkeypatch.setattr(superlink, "ANSWER_TIME", 600.0)


def link(folder: ServerFolder, port: int, host: str = LOOPBACK, **variables: str) -> Link:
    return Link(f"{host}:{port}", folder.authority[0], variables)


def wrong(folder: ServerFolder, port: int, host: str = LOOPBACK, **variables: str) -> ClusterError:
    """The error of a check."""
    with pytest.raises(ClusterError) as error:
        superlink.check_superlink(link(folder, port, host, **variables))
    return error.value


def test_a_superlink_that_answers(folder, port, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    before = dict(os.environ)
    assert superlink.check_superlink(link(folder, port)) == f"127.0.0.1:{port} answers"
    with listening(proxy) as way:
        assert superlink.check_superlink(link(folder, port, https_proxy=f"http://127.0.0.1:{way}"))
    assert dict(os.environ) == before
    # A SuperLink that is older than the node may be restarted with the right version.
    newer = replace(link(folder, port), is_grpc=False)
    with pytest.raises(SilentError, match=r"HTTPS; .* 1\.40 or newer"):
        superlink.check_superlink(newer)


@pytest.mark.parametrize("variable", superlink.PROXIES)
def test_a_proxy_that_is_in_the_way_is_named_with_its_variable_and_without_its_password(
    folder, port, variable
):
    with listening(plain_http) as way:
        error = wrong(folder, port, **{variable: f"http://me:secret@127.0.0.1:{way}"})
    assert type(error) is ClusterError  # it is no use to wait for the SuperLink
    for words in (
        f"127.0.0.1:{port}",
        f"{variable} names the proxy 127.0.0.1:{way}",
        "403",
        "127.0.0.1 to no_proxy",
    ):
        assert words in str(error)
    assert "secret" not in str(error)


def test_a_proxy_counts_only_where_grpc_asks_it(folder, port):
    closed = "http://127.0.0.1:9"
    for names in ("127.0.0.1", "example.org,127.0.0.0/8"):
        assert superlink.check_superlink(link(folder, port, https_proxy=closed, no_proxy=names))
    assert "'*' has no effect" in str(wrong(folder, port, https_proxy=closed, no_proxy="*"))
    silent = wrong(folder, free_ports(1)[0], https_proxy=closed, no_proxy="127.0.0.1")
    assert isinstance(silent, SilentError)
    assert "https_proxy" not in str(silent)


def test_what_else_answers_is_named(folder, port, monkeypatch):
    assert isinstance(wrong(folder, free_ports(1)[0]), SilentError)
    with fleet_server(folder, is_for_nodes=False) as runs:
        assert "does not serve nodes (UNIMPLEMENTED" in str(wrong(folder, runs))
    with listening(plain_http) as web:
        error = wrong(folder, web)
    assert "does not speak gRPC with TLS" in str(error)
    assert not isinstance(error, SilentError)
    assert "no SuperLink answers at no.invalid:9092" in str(wrong(folder, 9092, "no.invalid"))
    monkeypatch.setattr(superlink, "ANSWER_TIME", 0.2)
    with listening(silence) as never:
        error = wrong(folder, never)
    assert isinstance(error, SilentError)
    assert "no answer within 0.2 s" in str(error)


def test_an_authority_that_does_not_vouch(folder, port, tmp_path):
    certificates.make_authority(tmp_path / "ca.crt", tmp_path / "ca.key")
    with pytest.raises(ForeignError, match=r"is not the one that .*ca\.crt vouches for"):
        superlink.check_superlink(Link(f"127.0.0.1:{port}", tmp_path / "ca.crt", {}))
    misnamed = make_cluster(tmp_path / "named", ["fl.example.org"], [], 9092, 8000, 10)
    (tmp_path / "server.crt").write_bytes(b"")
    for path in misnamed.server:
        path.unlink()
    names = certificates.x509.SubjectAlternativeName([certificates.x509.DNSName("fl.example.org")])
    certificates.make_server(*misnamed.server, misnamed.authority, names, 10)
    with (
        fleet_server(misnamed) as address,
        pytest.raises(ForeignError, match="Hostname Verification"),
    ):
        superlink.check_superlink(link(misnamed, address))
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(ClusterError, match="is no certificate"):
        superlink.check_superlink(Link("127.0.0.1:1", tmp_path / "ca.crt", {}))


def test_an_address_is_that_which_flower_asks(folder, port, monkeypatch):
    """Flower takes an IPv6 address without brackets; gRPC alone would not."""
    targets = []
    channel = superlink.grpc.secure_channel
    monkeypatch.setattr(
        superlink.grpc,
        "secure_channel",
        lambda *arguments: targets.append(arguments[0]) or channel(*arguments),
    )
    for host in ("::1", "[::1]"):
        wrong(folder, free_ports(1)[0], host)
    assert all(target.startswith("[::1]:") for target in targets)


def test_by_https_where_flower_asks_so(folder, tmp_path):
    """As SuperNodes do from Flower 1.40 on, and `flwr` does."""

    def by_https(port: int, authority: Path = folder.authority[0], **variables: str) -> Link:
        return Link(f"127.0.0.1:{port}", authority, variables, is_grpc=False)

    certificates.make_authority(tmp_path / "ca.crt", tmp_path / "ca.key")
    with web_server(folder) as web, listening(plain_http) as plain:
        assert superlink.check_superlink(by_https(web))
        local = ServerFolder(folder.path, 9092, web)
        assert superlink.check_server(local) == f"127.0.0.1:{web} answers"
        assert "not known: Flower from 1.40 on" in superlink.check_clock(by_https(web))
        with pytest.raises(ForeignError):
            superlink.check_superlink(by_https(web, tmp_path / "ca.crt"))
        with pytest.raises(ClusterError, match=r"speak HTTPS; .* of Flower 1\.40 or newer"):
            superlink.check_superlink(by_https(plain))
        with pytest.raises(ClusterError, match=r"speak gRPC with TLS; .* of Flower up to 1\.39"):
            superlink.check_superlink(replace(by_https(web), is_grpc=True))
        with pytest.raises(ClusterError, match=f"https_proxy names the proxy 127.0.0.1:{plain}"):
            superlink.check_superlink(by_https(web, https_proxy=f"http://127.0.0.1:{plain}"))
        # that httpx does not speak, or not without a further package
        for scheme in ("ftp", "socks5"):
            with pytest.raises(
                ClusterError, match=r"https_proxy names the proxy 127\.0\.0\.1:9"
            ) as error:
                superlink.check_superlink(
                    by_https(web, https_proxy=f"{scheme}://me:secret@127.0.0.1:9")
                )
            assert "secret" not in str(error.value)
    with pytest.raises(SilentError):
        superlink.check_superlink(by_https(free_ports(1)[0]))


# The commands


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY", "no_grpc_proxy"])
def test_flower_asks_its_own_machine_without_a_proxy(name, monkeypatch):
    """gRPC reads `no_grpc_proxy`, else `no_proxy`; an empty name in them exempts every host."""
    monkeypatch.setenv(name, "fl.example.org")
    for variable in ("no_proxy", "no_grpc_proxy"):
        assert flower_environment({})[variable] == "fl.example.org,127.0.0.1,localhost"


# Waiting for nodes


def test_who_waits_for_nodes_goes_on_when_they_are_there(folder, monkeypatch, capsys):
    monkeypatch.setattr(status, "time", PausedClock())
    monkeypatch.setattr(superlink, "check_server", lambda folder: "")
    online = {"status": "online"}
    nodes = iter([[], [online], [online, {"status": "offline"}], [online] * 2])
    monkeypatch.setattr(status.registry, "registered_nodes", lambda folder: next(nodes))
    status.wait_for_nodes(folder, 2, 60)
    assert "0 of 2 nodes connected after 0 s" in capsys.readouterr().out


def test_who_waits_goes_on_while_a_node_starts_and_says_what_it_does(folder, monkeypatch, capsys):
    clock = PausedClock()
    monkeypatch.setattr(status, "time", clock)
    monkeypatch.setattr(superlink, "check_server", lambda folder: "")
    north, south = (folder.node(name) for name in ("north", "south"))
    for node in (north, south):
        node.path.mkdir(parents=True, exist_ok=True)
    north.note_step("checks: data")

    def registered(folder):
        if clock.now > 500:
            north.note_step(CONNECTS)
        is_online = {"north": clock.now > 560, "south": False}
        return [
            {"name": name, "status": "online" if is_online[name] else "registered"}
            for name in is_online
        ]

    monkeypatch.setattr(status.registry, "registered_nodes", registered)
    status.wait_for_nodes(folder, 1, 120)  # 500 s of checks, then 60 s to connect
    said = capsys.readouterr().out
    assert "0 of 1 node connected after 0 s; north checks: data" in said
    assert f"north {CONNECTS}" in said
    clock.now = 600.0
    with pytest.raises(ClusterError, match=r"1 of 2 nodes .* south has not connected") as error:
        status.wait_for_nodes(folder, 2, 120)
    assert error.value.key == "cluster.not-connected"
    assert clock.now == pytest.approx(720, abs=5)


def test_a_step_of_an_ended_process_is_none(tmp_path):
    node = NodeFolder(tmp_path)
    assert node.current_step() == ""
    node.start.write_text('{"process": 4194304, "begun": 0.0, "step": "checks: data"}')
    assert node.current_step() == ""
    reused = {"process": os.getpid(), "begun": 0.0, "step": "checks: data"}
    node.start.write_text(json.dumps(reused))
    assert node.current_step() == ""
    node.note_step("checks: data")
    assert node.current_step() == "checks: data"

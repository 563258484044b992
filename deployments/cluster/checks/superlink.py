"""Who answers at the address of a SuperLink, asked in the way that a SuperNode asks.

A SuperNode asks by gRPC, from Flower 1.40 on by HTTPS, and `flwr` by HTTPS. All take the proxy that
variables name: a plain socket would take another way.
"""

import contextlib
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

os.environ.setdefault("GRPC_VERBOSITY", "error")  # as Flower does
import grpc

from curvfed.deployments.cluster.certificates import time_left
from curvfed.deployments.cluster.checks.connections import split_address
from curvfed.deployments.cluster.daemons import Daemon
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.flower_commands import ONE_PORT
from curvfed.deployments.cluster.folder import NodeFolder, ServerFolder
from curvfed.deployments.cluster.ports import FLEET_PORT
from curvfed.deployments.processes import LOOPBACK, NO_PROXIES, flower_environment

ANSWER_TIME = 10.0
"""Seconds that a SuperLink has to answer."""

PROXIES = (
    ("https_proxy", "HTTPS_PROXY", "all_proxy")
    if ONE_PORT
    else ("grpc_proxy", "https_proxy", "http_proxy")
)
"""Variables that name a proxy, in the order in which a SuperNode reads them."""

SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Codes that gRPC itself gives if no gRPC server answers."""


class SilentError(ClusterError):
    """Nothing answers, so that a SuperLink may start there later."""


class ForeignError(ClusterError):
    """A SuperLink answers for which the node's authority does not vouch."""


FAULTS = (
    (
        "CERTIFICATE_VERIFY_FAILED|Hostname Verification",
        ForeignError,
        (
            "the SuperLink at {0.address} is not the one that {0.authority} vouches for; bring"
            " ca.crt from the server again, or use a name that its certificate has (`renew` there"
            " makes another one, with `--host` for other names)"
        ),
    ),
    (
        "WRONG_VERSION_NUMBER|ALPN",
        ClusterError,
        (
            "the program that answers at {0.address} does not speak gRPC with TLS; allowed is"
            f" the SuperLink's port for nodes, by default {FLEET_PORT}"
        ),
    ),
    (
        "",
        SilentError,
        (
            "no SuperLink answers at {0.address}; start it, or correct the address, or let"
            " firewalls pass it"
        ),
    ),
)
"""What it means if the words of gRPC or of OpenSSL have such a part; the first that fits."""


class Answer(NamedTuple):
    """gRPC's code, and its or the server's words."""

    code: grpc.StatusCode
    words: str

    @property
    def reason(self) -> str:
        """gRPC's words of its last attempt."""
        if self.code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {ANSWER_TIME:g} s"
        return self.words.rpartition("last error: ")[2]


@dataclass(frozen=True)
class Link:
    """The way to a SuperLink.

    Attributes
    ----------
    address : str
        HOST:PORT.
    authority : Path
        The certificate of those who vouch for the SuperLink.
    environment : mapping of str to str
        The environment of the program that asks; its proxy variables count.
    is_grpc : bool
        Whether that program asks by gRPC, as SuperNodes up to Flower 1.39, or by HTTPS.
    """

    address: str
    authority: Path
    environment: Mapping[str, str] = field(default_factory=lambda: flower_environment({}))
    is_grpc: bool = not ONE_PORT

    @contextlib.contextmanager
    def calls(self, by_proxy: bool = True) -> Iterator[Callable[..., Answer]]:
        """A function that calls the SuperLink by gRPC, with pairs of metadata.

        Raises
        ------
        ClusterError
            If the address is none, or the authority no certificate.
        """
        target = self._check()
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        options = [("grpc.enable_http_proxy", int(by_proxy))]
        with (
            _proxies_of(self.environment),
            grpc.secure_channel(target, credentials, options) as channel,
        ):
            method = channel.unary_unary("/flwr.proto.Fleet/GetRun")

            def call(*metadata: tuple[str, str | bytes]) -> Answer:
                error = method.future(b"", metadata=metadata, timeout=ANSWER_TIME).exception()
                return (
                    Answer(error.code(), error.details())
                    if error
                    else Answer(grpc.StatusCode.OK, "")
                )

            yield call

    def reach(self) -> Answer:
        """The answer of a server for which the authority vouches, whichever it is.

        Raises
        ------
        SilentError
            If nothing answers.
        ForeignError
            If the authority does not vouch for what answers.
        ClusterError
            If something else answers, or a proxy is in the way.
        """
        answer = self._ask()
        if answer.code not in SILENT:
            return answer
        kind, text = next(
            (kind, text) for part, kind, text in FAULTS if re.search(part, answer.words)
        )
        reason = f"{text.format(self)} ({answer.reason})"
        variable = next((name for name in PROXIES if self.environment.get(name)), None)
        direct = self._ask(by_proxy=False) if variable else answer
        # Equal words: no proxy was asked. A wait that ends does not tell.
        if variable is None or (direct == answer and answer.code == grpc.StatusCode.UNAVAILABLE):
            raise kind(reason)
        # Without the name and the password that the variable may have.
        proxy = urlsplit(self.environment[variable]).netloc.rpartition("@")[2]
        mend = (
            f"{variable} names the proxy {proxy}: unset it, or add {split_address(self.address)[0]}"
            " to no_proxy where the node starts ('*' has no effect)"
        )
        if direct.code in SILENT:
            raise kind(f"{reason}. Without a proxy: {direct.reason}; {mend}")
        raise ClusterError(
            f"no SuperLink answers at {self.address} by the proxy ({answer.reason}), and without it"
            f" one does; {mend}"
        )

    def _ask(self, by_proxy: bool = True) -> Answer:
        if self.is_grpc:
            with self.calls(by_proxy) as call:
                return call()
        return self._ask_https(by_proxy)

    def _ask_https(self, by_proxy: bool) -> Answer:
        import httpx

        target = self._check()
        context = ssl.create_default_context(cafile=str(self.authority))
        try:
            with (
                _proxies_of(self.environment),
                httpx.Client(verify=context, trust_env=by_proxy, timeout=ANSWER_TIME) as client,
            ):
                client.get(f"https://{target}/")
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            ImportError,
            ValueError,
        ) as error:  # the last three of a proxy's name
            return Answer(grpc.StatusCode.UNAVAILABLE, str(error))
        return Answer(grpc.StatusCode.UNAUTHENTICATED, "")

    def _check(self) -> str:
        """The address as gRPC takes it."""
        host, port = split_address(self.address)
        try:
            time_left(self.authority)
        except (OSError, ValueError) as error:
            raise ClusterError(f"{self.authority} is no certificate: {error}") from None
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def link_of(node: NodeFolder, address: str | None = None) -> Link:
    """The way of a node's SuperNode: of the one that runs in the background, else of one that would
    start here."""
    process = Daemon(node.running, node.name).process()
    if process is None:
        return Link(address or node.superlink, node.authority)
    words = process.cmdline()
    return Link(address or words[words.index("--superlink") + 1], node.authority, process.environ())


def check_superlink(link: Link) -> str:
    """Say that the SuperLink answers on its port for nodes.

    Raises
    ------
    SilentError, ForeignError, ClusterError
        As `Link.reach` does; also if the port is another one of the SuperLink.
    """
    answer = link.reach()
    if answer.code != grpc.StatusCode.UNAUTHENTICATED:
        raise ClusterError(
            f"what answers at {link.address} does not serve nodes ({answer.code.name}:"
            f" {answer.words}); allowed is the SuperLink's port for nodes, by default {FLEET_PORT}"
            " (`init --fleet-port`)"
        )
    return f"{link.address} answers"


def check_server(folder: ServerFolder) -> str:
    """Say that the SuperLink of this folder answers on its port for runs.

    Raises
    ------
    SilentError, ClusterError
        If not; also if another cluster's SuperLink answers.
    """
    link = Link(f"{LOOPBACK}:{folder.api_port}", folder.authority[0], is_grpc=False)
    try:
        link.reach()
    except ForeignError:
        raise ClusterError(
            f"the SuperLink at {link.address} is another cluster's: {link.authority} does not vouch"
            " for it. Stop it by its own `down`, or make a cluster with another --folder and"
            " --api-port"
        ) from None
    return f"{link.address} answers"


@contextlib.contextmanager
def _proxies_of(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process have the proxy variables of an environment; gRPC reads them when it opens a
    channel."""
    names = {*PROXIES, *NO_PROXIES}
    before = {name: os.environ.pop(name) for name in names & os.environ.keys()}
    os.environ.update({name: environment[name] for name in names & environment.keys()})
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)

"""The connection to a SuperLink: whether it answers, and how far its clock is from this machine's.

A SuperNode uses gRPC, or HTTPS from Flower 1.40 on; `flwr` uses HTTPS. All use the proxy of the
environment, which a plain socket would miss.
"""

import bisect
import contextlib
import datetime
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
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.constant import PUBLIC_KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from curvfed.deployments.processes import LOOPBACK, NO_PROXIES, flower_environment
from curvfed.extensions.cluster.commands import ClusterError, ToleratedError, WrongUsageError
from curvfed.extensions.cluster.commands.certificates import (
    node_host,
    server_names,
    time_left,
)
from curvfed.extensions.cluster.commands.flower_commands import ONE_PORT, SILENT
from curvfed.extensions.cluster.commands.folder import FLEET_PORT, LAST_PORT, ServerFolder

ANSWER_TIME = 10.0
"""Seconds for a SuperLink to answer."""

PROXIES = (
    ("https_proxy", "HTTPS_PROXY", "all_proxy")
    if ONE_PORT
    else ("grpc_proxy", "https_proxy", "http_proxy")
)
"""Variables with a proxy, in the order in which a SuperNode reads them."""

UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Codes of gRPC itself, without an answer of a gRPC server."""

AHEAD = 5.0
BEHIND = 305.0
"""Tolerated seconds of a node's clock, by Flower's `SYSTEM_TIME_TOLERANCE` and
`TIMESTAMP_TOLERANCE`."""

DAY = 86_400
STEP = 300


class SilentError(ToleratedError):
    """Nothing answers; a SuperLink may start there later."""


class ForeignError(ClusterError):
    """The node's authority did not sign the certificate of the SuperLink that answers."""


class Answer(NamedTuple):
    """gRPC's code, and the text of gRPC or of the server."""

    code: grpc.StatusCode
    text: str

    @property
    def reason(self) -> str:
        """gRPC's text about its last attempt."""
        if self.code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {ANSWER_TIME:g} s"
        return self.text.rpartition("last error: ")[2]


@dataclass(frozen=True)
class Link:
    """The connection from a program to a SuperLink.

    Attributes
    ----------
    address : str
        HOST:PORT.
    authority : Path
        The certificate that authenticates the SuperLink.
    environment : mapping of str to str
        The environment of the program, with its proxy variables.
    is_grpc : bool
        Whether the program uses gRPC, as SuperNodes up to Flower 1.39, or HTTPS.
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
            If the address or the authority is unfit.
        """
        target = self._target()
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        options = [("grpc.enable_http_proxy", int(by_proxy))]
        with (
            _proxies_of(self.environment),
            grpc.secure_channel(target, credentials, options) as channel,
        ):
            method = channel.unary_unary("/flwr.proto.Fleet/GetRun")

            def call(*metadata: tuple[str, str | bytes]) -> Answer:
                error = method.future(b"", metadata=metadata, timeout=ANSWER_TIME).exception()
                if error:
                    return Answer(error.code(), error.details())
                return Answer(grpc.StatusCode.OK, "")

            yield call

    def reach(self) -> Answer:
        """The answer of any server that the authority authenticates.

        Raises
        ------
        SilentError
            If nothing answers.
        ForeignError
            If the server has another authority.
        ClusterError
            If the server is not a SuperLink, or a proxy stops the call.
        """
        answer = self._ask()
        if answer.code not in UNANSWERED:
            return answer
        variable = next((name for name in PROXIES if self.environment.get(name)), None)
        if variable is None:
            raise self._fault(answer)
        direct = self._ask(by_proxy=False)
        if direct == answer and answer.code == grpc.StatusCode.UNAVAILABLE:
            raise self._fault(answer)  # the equal texts show that no proxy was used
        # Without a name and a password in the variable.
        proxy = urlsplit(self.environment[variable]).netloc.rpartition("@")[2]
        remedy = (
            f"{variable} names the proxy {proxy}: unset it, or add {split_address(self.address)[0]}"
            " to no_proxy where the node starts ('*' has no effect)"
        )
        if direct.code in UNANSWERED:
            raise self._fault(answer, f". Without a proxy: {direct.reason}; {remedy}")
        raise ClusterError(
            f"no SuperLink answers at {self.address} by the proxy ({answer.reason}), and without it"
            f" one does; {remedy}",
            key="proxy",
        )

    def _fault(self, answer: Answer, addition: str = "") -> ClusterError:
        """The error for an answer by gRPC or OpenSSL itself, recognised by its text."""
        if re.search("CERTIFICATE_VERIFY_FAILED|Hostname Verification", answer.text):
            return ForeignError(
                f"the SuperLink at {self.address} is not the one that {self.authority} vouches for;"
                " bring ca.crt from the server again, or use a name that its certificate has"
                " (`renew` there makes another one, with `--host` for other names)"
                f" ({answer.reason}){addition}",
                key="foreign-superlink",
            )
        protocol = "gRPC with TLS"
        versions = "Flower up to 1.39"
        if not self.is_grpc:
            protocol = "HTTPS"
            versions = "Flower 1.40 or newer"
        if "disconnected without" in answer.text:  # gRPC's answer to HTTPS, or a proxy's
            return SilentError(
                f"what answers at {self.address} does not speak {protocol}; start a SuperLink of"
                f" {versions} there, as here ({answer.reason}){addition}",
                key="other-port",
            )
        if re.search("WRONG_VERSION_NUMBER|ALPN", answer.text):
            return ClusterError(
                f"the program that answers at {self.address} does not speak {protocol}; allowed"
                f" is the SuperLink's port for nodes, by default {FLEET_PORT}, of a SuperLink of"
                f" {versions}, as here ({answer.reason}){addition}",
                key="other-port",
            )
        return SilentError(
            f"no SuperLink answers at {self.address}; start it, or correct the address, or let"
            f" firewalls pass it ({answer.reason}){addition}",
            key=SILENT,
        )

    def _ask(self, by_proxy: bool = True) -> Answer:
        if self.is_grpc:
            with self.calls(by_proxy) as call:
                return call()
        import httpx

        context = ssl.create_default_context(cafile=str(self.authority))
        proxy_errors = (httpx.InvalidURL, ImportError, ValueError)
        try:
            with (
                _proxies_of(self.environment),
                httpx.Client(verify=context, trust_env=by_proxy, timeout=ANSWER_TIME) as client,
            ):
                client.get(f"https://{self._target()}/")
        except (httpx.HTTPError, *proxy_errors) as error:
            return Answer(grpc.StatusCode.UNAVAILABLE, str(error))
        return Answer(grpc.StatusCode.UNAUTHENTICATED, "")

    def _target(self) -> str:
        """The address in gRPC's form, once the authority is known to be a certificate."""
        host, port = split_address(self.address)
        try:
            time_left(self.authority)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"{self.authority} is no certificate: {error}", key="unreadable"
            ) from None
        if ":" in host:
            return f"[{host}]:{port}"
        return f"{host}:{port}"


def check_superlink(link: Link) -> str:
    """Report that the SuperLink answers on its port for nodes.

    Raises
    ------
    SilentError, ForeignError, ClusterError
        As `Link.reach`; also if this is another port of the SuperLink.
    """
    answer = link.reach()
    if answer.code != grpc.StatusCode.UNAUTHENTICATED:
        raise ClusterError(
            f"what answers at {link.address} does not serve nodes ({answer.code.name}:"
            f" {answer.text}); allowed is the SuperLink's port for nodes, by default {FLEET_PORT}"
            " (`init --fleet-port`)",
            key="other-port",
        )
    return f"{link.address} answers"


def check_server(folder: ServerFolder) -> str:
    """Report that the SuperLink of this folder answers on its port for runs.

    Raises
    ------
    SilentError, ClusterError
        If it does not answer, or another cluster's SuperLink does.
    """
    link = Link(f"{LOOPBACK}:{folder.api_port}", folder.authority[0], is_grpc=False)
    try:
        link.reach()
    except ForeignError:
        raise ClusterError(
            f"the SuperLink at {link.address} is another cluster's: {link.authority} does not vouch"
            " for it. Stop it, or make a cluster with another --folder and --api-port",
            key="foreign-superlink",
        ) from None
    return f"{link.address} answers"


def check_clock(link: Link) -> str:
    """Report the difference of the clocks, to a quarter of a second.

    A SuperNode signs each call with its time. The SuperLink checks the time before the key, so
    calls signed by a new key reveal the difference. From Flower 1.40 on it is not known.

    Raises
    ------
    ClusterError
        If no SuperLink answers, or it refuses this machine's clock.
    """
    if not link.is_grpc:
        return "not known: Flower from 1.40 on does not say why it refuses a node"
    check_superlink(link)
    key = ec.generate_private_key(ec.SECP384R1())
    public = public_key_to_bytes(key.public_key())

    def is_accepted(shift: float) -> bool:
        """Whether the SuperLink accepts this clock's time plus `shift` seconds."""
        time = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=shift)).isoformat()
        signature = sign_message(key, time.encode())
        answer = call(
            (PUBLIC_KEY_HEADER, public), (TIMESTAMP_HEADER, time), (SIGNATURE_HEADER, signature)
        )
        if answer.code != grpc.StatusCode.UNAUTHENTICATED:
            raise SilentError(
                f"the SuperLink at {link.address} does not answer any more ({answer.reason})",
                key=SILENT,
            )
        return answer.text != "Invalid timestamp"

    with link.calls() as call:
        shifts = sorted(range(-DAY, DAY + 1, STEP), key=abs)
        begin = next(filter(is_accepted, shifts), None)
        if begin is None:
            raise ClusterError(
                "this machine's clock is more than a day from the server's; set both by NTP",
                key="clock",
            )
        half_seconds = range(2 * int(AHEAD + BEHIND))
        accepted = bisect.bisect(
            half_seconds, False, key=lambda half: not is_accepted(begin + half / 2)
        )
    ahead = AHEAD - begin - (accepted - 0.5) / 2
    relation = "ahead of" if ahead > 0 else "behind"
    difference = f"{abs(ahead):.1f} s {relation} the server's"
    if not -BEHIND <= ahead <= AHEAD:
        raise ClusterError(
            f"this machine's clock is {difference}, and the SuperLink refuses a node whose clock is"
            f" more than {AHEAD:g} s ahead or {BEHIND:g} s behind; set both by NTP",
            key="clock",
        )
    return difference


def split_address(address: str) -> tuple[str, int]:
    """Host and port of an address.

    Raises
    ------
    WrongUsageError
        If it has another form.
    """
    allowed = (
        f"{address!r} is no address; allowed is HOST:PORT, without https://, PORT being 1 to"
        f" {LAST_PORT}"
    )
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 1 <= int(port) <= LAST_PORT:
        raise WrongUsageError(allowed, key="address")
    try:
        server_names([node_host([host])])
    except WrongUsageError:
        raise WrongUsageError(allowed, key="address") from None
    return host, int(port)


@contextlib.contextmanager
def _proxies_of(environment: Mapping[str, str]) -> Iterator[None]:
    """Within the block this process has the proxy variables of `environment`, which gRPC reads."""
    names = {*PROXIES, *NO_PROXIES}
    before = {name: os.environ.pop(name) for name in names & os.environ.keys()}
    os.environ.update({name: environment[name] for name in names & environment.keys()})
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)

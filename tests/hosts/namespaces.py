"""Hosts with addresses on one machine: network namespaces, each with a line to one switch."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SWITCH, BRIDGE, DEVICE = "switch", "br0", "eth0"
LOSSY_LINES = Path(__file__).with_name("lossy_lines.py")


class NoNamespacesError(RuntimeError):
    """This machine does not let this user make network namespaces; says why."""


class Network:
    """Some hosts, and the switch between them, a namespace too. The machine's own network is not
    touched.

    Parameters
    ----------
    hosts : sequence of str

    Raises
    ------
    NoNamespacesError
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        if shutil.which("ip") is None:
            raise NoNamespacesError("the program `ip` (iproute2) is not there")
        if os.geteuid() != 0:
            raise NoNamespacesError("network namespaces need root")
        self._stem = f"curvfed-{os.getpid()}-"
        self._addresses = {host: f"10.77.0.{number}" for number, host in enumerate(hosts, 1)}
        try:
            self._make()
        except subprocess.CalledProcessError as error:
            self.remove()
            raise NoNamespacesError(
                f"`{' '.join(error.cmd)}` says: {error.stderr.strip()}"
            ) from None

    def _make(self) -> None:
        self._add(SWITCH)
        self._ip(SWITCH, "link", "add", BRIDGE, "type", "bridge")
        self._ip(SWITCH, "link", "set", BRIDGE, "up")
        for host, address in self._addresses.items():
            self._add(host)
            peer = ("peer", "name", host, "netns", self._name(SWITCH))
            self._ip(host, "link", "add", DEVICE, "type", "veth", *peer)
            self._ip(SWITCH, "link", "set", host, "master", BRIDGE, "up")
            self._ip(host, "address", "add", f"{address}/24", "dev", DEVICE)
            self._ip(host, "link", "set", DEVICE, "up")

    def remove(self) -> None:
        """Take it all away; devices go with their namespaces."""
        for host in (*self._addresses, SWITCH):
            subprocess.run(
                ["ip", "netns", "delete", self._name(host)], capture_output=True, check=False
            )

    def address(self, host: str) -> str:
        """By which the others reach it."""
        return self._addresses[host]

    def prefix(self, host: str) -> tuple[str, ...]:
        """Words before a command that is to run on a host."""
        return "ip", "netns", "exec", self._name(host)

    def cut(self, host: str) -> None:
        """Pull a host's cable out of the switch."""
        self._ip(SWITCH, "link", "set", host, "down")

    def mend(self, host: str) -> None:
        """Put it in again."""
        self._ip(SWITCH, "link", "set", host, "up")

    @contextlib.contextmanager
    def impaired(self, hosts: Sequence[str], delay: float, loss: float) -> "Iterator[Impairment]":
        """The lines of some hosts delay and lose frames, both ways; by the kernel or a process."""
        ends = [end for host in hosts for end in ((host, DEVICE), (SWITCH, host))]
        how = ("root", "netem", "delay", f"{delay * 1000:g}ms", "loss", f"{loss * 100:g}%")
        if shutil.which("tc") and all(self._tc("add", end, *how).returncode == 0 for end in ends):
            impairment = Impairment("tc netem")
            try:
                yield impairment
            finally:
                impairment.lost = sum(
                    json.loads(self._tc("show", end).stdout)[0]["drops"] for end in ends
                )
                for end in ends:
                    self._tc("delete", end, "root")
        else:
            with self._lossy_lines(hosts, delay, loss) as impairment:
                yield impairment

    def _tc(
        self, action: str, end: tuple[str, str], *how: str
    ) -> "subprocess.CompletedProcess[str]":
        host, device = end
        command = ["tc", "-s", "-j", "-n", self._name(host), "qdisc", action, "dev", device, *how]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    @contextlib.contextmanager
    def _lossy_lines(
        self, hosts: Sequence[str], delay: float, loss: float
    ) -> "Iterator[Impairment]":
        """Each line leads through a process: from the switch by one tap, and back by another."""
        taps = [f"{end}-{host}" for host in hosts for end in "ab"]
        words = [
            *self.prefix(SWITCH),
            sys.executable,
            str(LOSSY_LINES),
            str(delay),
            str(loss),
            *taps,
        ]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        impairment = Impairment("user-space lines")
        try:
            assert process.stdout.readline() == "ready\n"
            for host in hosts:
                self._ip(SWITCH, "link", "add", f"br-{host}", "type", "bridge")
                self._ip(SWITCH, "link", "set", f"a-{host}", "master", f"br-{host}", "up")
                self._ip(SWITCH, "link", "set", f"b-{host}", "master", BRIDGE, "up")
                self._ip(SWITCH, "link", "set", f"br-{host}", "up")
                self._ip(SWITCH, "link", "set", host, "master", f"br-{host}")
            yield impairment
        finally:
            for host in hosts:
                self._ip(SWITCH, "link", "set", host, "master", BRIDGE)
                self._ip(SWITCH, "link", "delete", f"br-{host}")
            process.stdin.close()
            impairment.lost = int(process.stdout.readline())
            process.wait(10)
            process.stdout.close()

    def _name(self, host: str) -> str:
        return self._stem + host

    def _add(self, host: str) -> None:
        _run("ip", "netns", "add", self._name(host))
        self._ip(host, "link", "set", "lo", "up")

    def _ip(self, host: str, *words: str) -> None:
        _run("ip", "-n", self._name(host), *words)


class Impairment:
    """What is done to the lines.

    Attributes
    ----------
    by : str
        By what.
    lost : int
        Frames; known at the end.
    """

    def __init__(self, by: str) -> None:
        self.by, self.lost = by, 0


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)

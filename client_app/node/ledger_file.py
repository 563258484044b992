"""The file of a ledger: a chain of lines that is only ever appended to, and an anchor in a second
place that records how far the chain goes.

The digest of a line covers the digest of the line before, so no line can be changed, removed or
moved unnoticed. The anchor shows that the file was removed, or replaced by an older copy. A line is
written and synced before its anchor, and both before the answer leaves: after a crash between them
the chain is longer than its anchor says, which is allowed.

`Memory` holds the facts that the rules need from the lines. A process checks a line once. A new
process begins with the memory in the index, a third file, if the anchor records the digest of the
index.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger_memory import END, Head, Memory
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.stored_files import (
    UNSEALED,
    is_whole,
    make_private,
    sealed,
    sync_folder,
    write_atomically,
)

FORMAT = 2
"""The first field of each line."""

RESET = "reset"
"""The kind of a line before which lines may be missing, as an operator has accepted."""

INDEX_FORMAT = 6
"""The first field of the index; one of another format is not read, and written anew."""

INDEX_EVERY = 2**16
"""The index is written anew after this number of bytes of lines."""


@dataclass
class _Checked:
    """The lines of a ledger that this process has checked.

    Attributes
    ----------
    head : Head
    memory : Memory
    indexed : int
        Bytes of the chain in the index.
    index : str
        SHA-256 of the index; "" without one.
    stamp : tuple of int
        Device, inode, size and time of the file.
    """

    head: Head
    memory: Memory
    indexed: int = 0
    index: str = ""
    stamp: tuple[int, ...] = ()


_checked: dict[Path, _Checked] = {}


class LedgerFile:
    """The lines of one node, oldest first.

    Parameters
    ----------
    path : Path
    anchors : sequence of Path
        Possible places of the anchor; the first that can be written to gets it. Without places the
        file has neither anchor nor index.
    """

    def __init__(self, path: Path, anchors: Sequence[Path] = ()) -> None:
        self.path = path
        self._anchors = anchors
        self._index = path.with_suffix(".index")

    @property
    def memory(self) -> Memory:
        """The memory of all lines, within `locked`."""
        return _checked[self.path].memory

    @property
    def head(self) -> Head:
        """The end of the chain, within `locked`."""
        return _checked[self.path].head

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Check new lines, and let no other process append within the block.

        Yields
        ------
        int
            The descriptor of the file, for `write`.

        Raises
        ------
        ConfigError
            If the file is damaged, or lacks lines that its anchor records, or cannot be written:
            then the node must not answer.
        """
        if not self.path.exists():
            self.lines()  # refuses a file that was removed, before another one is begun
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._check_lines(file)
                yield file
            finally:
                os.close(file)
        except OSError as error:
            raise ConfigError(
                f"this node's ledger cannot be written ({error.strerror}): it answers nothing",
                key="unwritable-ledger",
            ) from None

    def append(self, kind: str, **fields: Any) -> None:
        """Write a line to the disk; raises as `locked`."""
        with self.locked() as file:
            self.write(file, kind, **fields)

    def write(self, file: int, kind: str, **fields: Any) -> None:
        """Write a line and its anchor to the disk, within `locked`."""
        checked = _checked[self.path]
        line = {
            "format": FORMAT,
            "time": time_now(),
            "kind": kind,
            **fields,
        }
        body = json.dumps(line, ensure_ascii=False)[:-1].encode() + b', "digest": "'
        digest = sha256(checked.head.digest.encode() + body).hexdigest()
        content = body + digest.encode() + END + b"\n"
        os.ftruncate(file, checked.head.size)  # removes a torn line
        if os.write(file, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
        if not checked.head.lines:
            sync_folder(self.path.parent)
        checked.head = Head(checked.head.lines + 1, checked.head.size + len(content), digest)
        checked.memory.note(line)
        checked.stamp = _stamp(file)
        self._write_anchor(checked)

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """The lines of some kinds, or all, without a torn one; every line is checked.

        Raises
        ------
        ConfigError
            If a line is damaged, or lines that the anchor records are missing.
        """
        lines = []
        head = Head()
        anchors = self._read_anchors()  # before the lines, which another process may append to
        # Nothing is created: whoever asks for the lines may be another user than the node's.
        with open(self.path if self.path.exists() else os.devnull, "rb") as file:
            for following, line in self._chain(file.read(), head):
                head = following
                lines.append(line)
            self._check_anchors(anchors, file.fileno(), head)
        return [line for line in lines if not kinds or line["kind"] in kinds]

    def reset(self, **fields: Any) -> None:
        """Continue from the existing lines; the anchor no longer requires missing ones.

        A damaged file is renamed, and the ledger begins anew.
        """
        _checked.pop(self.path, None)
        unanchored = type(self)(self.path)
        try:
            unanchored.lines()
        except ConfigError:
            self.path.rename(self.path.with_suffix(".damaged"))
        unanchored.append(RESET, **fields)
        self._write_anchor(_checked[self.path])

    def _check_lines(self, file: int) -> None:
        """Check the lines that this process does not know."""
        anchors = self._read_anchors()
        stat = _stamp(file)
        checked = self._known(file, stat) or self._indexed(file, anchors)
        _checked.pop(self.path, None)
        if checked.stamp != stat:
            start = checked.head.size
            data = os.pread(file, max(stat[2] - start, 0), start)
            for following, line in self._chain(data, checked.head):
                checked.head = following
                checked.memory.note(line)
            checked.stamp = stat
        self._check_anchors(anchors, file, checked.head)
        _checked[self.path] = checked

    def _known(self, file: int, stat: tuple[int, ...]) -> _Checked | None:
        """The lines that this process has checked, if the file is the same and only grew."""
        checked = _checked.get(self.path)
        if checked is None or checked.stamp[:2] != stat[:2] or not checked.head.is_in(file):
            return None
        is_unchanged = checked.stamp == stat
        return checked if is_unchanged or stat[2] > checked.stamp[2] else None

    def _indexed(self, file: int, anchors: Mapping[Path, dict[str, Any]]) -> _Checked:
        """The content of the index, if an anchor records its digest; else an empty chain."""
        with contextlib.suppress(OSError):
            content = self._index.read_bytes()
            digest = sha256(content).hexdigest()
            if any(anchor["index"] == digest for anchor in anchors.values()):
                index = json.loads(content)
                if index.get("format") == INDEX_FORMAT:
                    head = Head(**index["head"])
                    if head.is_in(file):
                        memory = Memory.from_json(index["memory"])
                        return _Checked(head, memory, head.size, digest)
        return _Checked(Head(), Memory())

    def _chain(self, data: bytes, head: Head) -> Iterator[tuple[Head, dict[str, Any]]]:
        """The lines in data, each with its head, after the line of a head."""
        *complete, last = data.split(b"\n")
        for text in complete:
            following = head.after(text)
            if following is None:
                raise self._damaged(head, text)
            head = following
            yield head, json.loads(text)
        if last and head.after(last[:-1]):  # its line break has become another character
            raise self._damaged(head, last)

    def _damaged(self, head: Head, text: bytes) -> ConfigError:
        if not head.lines and not text.startswith(f'{{"format": {FORMAT},'.encode()):
            return ConfigError(
                f"this node's ledger has another format than {FORMAT}, the one of this version of"
                f" curvfed: {self.path}; a new state-path begins another, which does not know what"
                " this one has recorded",
                key="other-ledger-format",
            )
        return ConfigError(
            f"this node's ledger is damaged: {self.path}, line {head.lines + 1}; restore the file"
            " from a backup. Until then the node answers nothing, since it does not know what it"
            " has revealed",
            key="damaged-ledger",
        )

    def _read_anchors(self) -> dict[Path, dict[str, Any]]:
        """The anchors that there are, by their paths."""
        anchors = {}
        for path in self._anchors:
            if not os.access(path.parent, os.X_OK):  # missing, or in the home of another user
                continue
            with contextlib.suppress(FileNotFoundError):
                content = path.read_bytes()
                if not is_whole(content):
                    raise ConfigError(
                        f"the anchor of this node's ledger is damaged: {path}; restore the file"
                        " from a backup, or remove it: then nothing shows whether the ledger has"
                        " all its lines",
                        key="damaged-anchor",
                    )
                anchors[path] = json.loads(content)
        return anchors

    def _check_anchors(self, anchors: Mapping[Path, dict[str, Any]], file: int, head: Head) -> None:
        """Refuse a chain without the lines that an anchor records."""
        for path, anchor in anchors.items():
            recorded = Head(**anchor["head"])
            if recorded.size > head.size or not recorded.is_in(file):
                raise ConfigError(
                    f"this node's ledger {self.path} has not the {recorded.lines} lines that {path}"
                    " records; put back its last copy, or if that is lost, go on without it by"
                    f" `curvfed cluster ledger {self.path.parent} --reset {path}`",
                    key="other-ledger",
                )

    def _write_anchor(self, checked: _Checked) -> None:
        """Record the head in the first place that can be written to; the index before, if it is
        due."""
        if not self._anchors:
            return
        if checked.head.size - checked.indexed > INDEX_EVERY:
            index = {
                "format": INDEX_FORMAT,
                "head": asdict(checked.head),
                "memory": checked.memory.as_json(),
            }
            content = json.dumps(index).encode()
            write_atomically(self._index, content, private=True, durable=True)
            checked.index = sha256(content).hexdigest()
            checked.indexed = checked.head.size
        anchor = {
            "seal": UNSEALED,
            "ledger": str(self.path),
            "head": asdict(checked.head),
            "index": checked.index,
        }
        content = sealed(json.dumps(anchor).encode())
        for path in self._anchors:
            try:
                make_private(path.parent)
                write_atomically(path, content, private=True, durable=True)
            except OSError:
                if path == self._anchors[-1]:
                    raise
            else:
                return


def ledger_path(node: Node) -> Path:
    """The ledger of a real node, in its `state-path`."""
    return node.state_root / f"ledger-{node.partition:05d}.jsonl"


def time_now(before: timedelta = timedelta()) -> str:
    """The time of a line that is written now, or was this long ago."""
    return f"{datetime.now(UTC) - before:%Y-%m-%dT%H:%M:%SZ}"


def _stamp(file: int) -> tuple[int, ...]:
    stat = os.fstat(file)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns

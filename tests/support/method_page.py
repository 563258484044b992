"""The pages of docs/methods on every method, for tests that compare them with recorded runs."""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from app_runs import Recorder, Run, all_bytes, array_names, parameters_in, partition_of

from curvfed.strategies.wire.codec import decode_arrays

PAGES = Path(__file__).parents[2] / "docs" / "methods"
SENT_MODELS = ("train", "evaluate", "fine-tune", "calibrate", "ccvr")
FIXED = ("fedbabu", "fedetf", "spherefed", "hyperfed", "hyperfed-averaged", "hyperfed-geodesic")


class Line(NamedTuple):
    """A method's line: patterns of names of arrays."""

    is_sent: frozenset[str]
    sends: frozenset[str]
    keeps: frozenset[str]


def documented_methods() -> dict[str, Line]:
    """Every method's line."""
    methods = {}
    for page in PAGES.glob("*.md"):
        lines = re.findall(
            r"^\| `[a-z+-]+` \|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        for line in lines:
            name, *columns = (cell.strip() for cell in line[1:-1].split("|"))
            if len(columns) == 4:
                patterns = (frozenset(re.findall(r"`([^`]+)`", column)) for column in columns[:3])
                methods[name.strip("`")] = Line(*patterns)
    return methods


def matched(names: Iterable[str], patterns: Iterable[str]) -> set[str]:
    """Those of the names that a pattern matches."""
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def assert_matched(names: Collection[str], patterns: Iterable[str]) -> None:
    """Every name is matched by a pattern, and every pattern matches a name."""
    assert matched(names, patterns) == set(names)
    for pattern in patterns:
        assert matched(names, [pattern]), f"{pattern} matches none of {sorted(names)}"


def check_parameters(method: str, result: Run, recorder: Recorder) -> None:
    """A client is sent, sends and keeps what the method's line says, and no more."""
    page = documented_methods()[method]
    kept = parameters_in(result.personal(0)).keys()
    assert_matched(kept, page.keeps)
    for content in recorder.replies("train"):
        assert_matched(set(array_names(content)), page.sends)
        assert kept.isdisjoint(array_names(content))
    for content in [content for phase in SENT_MODELS for content in recorder.requests(phase)]:
        assert_matched(set(content.get("arrays", {})), page.is_sent)
        assert kept.isdisjoint(content.get("arrays", {}))
    for phase in ("describe", "start", "evaluate", "fine-tune"):
        assert not any(map(array_names, recorder.replies(phase)))


def check_fixed(method: str, recorder: Recorder) -> None:
    """A fixed classifier is sent once to each client, and does not come back."""
    sent = [
        (partition_of(reply), decode_arrays(asked["fixed"]))
        for asked, reply in recorder.pairs
        if "fixed" in asked
    ]
    if method not in FIXED:
        assert not sent
        return
    assert sorted(partition for partition, _ in sent) == [0, 1, 2]
    names = {"head.weight", "head.bias"} if method == "fedbabu" else {"head.weight"}
    assert all(set(arrays) == names for _, arrays in sent)
    (head,) = {arrays["head.weight"].tobytes() for _, arrays in sent}
    assert not any(head in all_bytes(reply) for reply in recorder.replies())

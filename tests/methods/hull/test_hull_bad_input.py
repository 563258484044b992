"""One-shot runs on odd or wrong data, configurations and keys: refused, or right."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from absent_extensions import needs_tables, skip_without_tables
from app_runs import Recorder, Run, phase_of
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from errors import refuses
from hull_nodes import arrays_of, blobs, decoded, expected, hull_run, nodes_of, training
from policies import with_policy
from tiers import only

from curvfed.server_app.run import RoundError
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError

PAIR = [blobs("02"), blobs("20", seed=1)]
"""Two good clients of two classes."""

TINY = (
    "[sums]\ncontributors = 2\nothers-examples = 0\nmin-holders = 1\n"
    "[leaves]\nhull-min-class-size = 1\n"
)
"""The policy of nodes whose classes have less than five points."""


def npz(points, labels) -> dict:
    """All of them for training, the first one for a test, too."""
    x, y = np.array(points, dtype=np.float64), np.array(list(labels))
    return {"x_train": x, "y_train": y, "x_test": x[:1], "y_test": y[:1]}


def phases(recorder: Recorder) -> set[str]:
    return {phase_of(asked) for asked, _ in recorder.pairs}


WRONG_DATA = {
    "on the boundary": (
        npz([[0.5, 0], [1, 0]], "02"),
        "… of … points lie on or outside the boundary",
    ),
    "outside": ("x,y,label\n0.1,0.2,0\n3.5,1,2\n", "… of … points lie on or outside the boundary"),
    "NaN": (npz([[0.5, 0], [math.nan, 0]], "02"), "finite"),
    "infinite": ("x,y,label\n0.1,inf,0\n", "finite"),
}


@needs_tables
def test_points_that_are_none_refuse_their_node(tmp_path):
    data = [content for content, _ in WRONG_DATA.values()]
    run = hull_run(tmp_path, nodes=nodes_of(tmp_path / "nodes", [*data, *PAIR]))
    assert decoded(run) == expected([training(part) for part in PAIR], 0.01)
    refused = sorted(run.described["refused"].values())
    for number, (case, (_, reason)) in enumerate(WRONG_DATA.items()):
        assert f"partition-id {number}: " in refused[number], case
        assert reason in refused[number], case
    assert "3.5" not in "".join(refused)


def test_another_curvature_than_that_of_the_points_is_named(tmp_path):
    nodes = nodes_of(tmp_path / "nodes", [blobs("02", radius=2.0), blobs("02", seed=1, radius=2.0)])
    with pytest.raises(FederationError, match=r"Is points\.curvature that of the"):
        hull_run(tmp_path, nodes=nodes)
    nodes = with_policy(
        tmp_path,
        nodes,
        "[data]\ncurvature = -0.25\n[sums]\ncontributors = 2\nothers-examples = 0\n",
    )
    assert (
        hull_run(tmp_path, "right", nodes=nodes, points__curvature=-0.25).summary["status"]
        == "completed"
    )


ODD = {
    "one point per class": [npz([[0.5, 0.1], [-0.5, 0]], "02"), npz([[0.4, 0], [-0.4, 0.2]], "02")],
    "all points equal": [
        npz([[0.5, 0]] * 4 + [[-0.5, 0]] * 3, "0000222"),
        npz([[0.5, 0]] * 2 + [[-0.5, 0]], "002"),
    ],
    "all on one geodesic": [
        npz([[x, 0] for x in np.linspace(-0.9, 0.9, 12)], "0" * 6 + "2" * 6),
        npz([[x, 0] for x in np.linspace(-0.8, 0.8, 9)], "0" * 5 + "2" * 4),
    ],
    "at the origin": [npz([[0, 0], [0.5, 0.5]], "02"), npz([[0, 0], [0.4, 0.5]], "02")],
    "an empty client": [*PAIR, npz(np.zeros((0, 2)), "")],
    "an empty class": [*PAIR, blobs("0", seed=3)],
    "no class in common": [*PAIR, blobs("0", seed=3), blobs("2", seed=4)],
    "from csv": [
        "x,y,label\n0.1,0.2,a\n0.2,0.1,a\n-0.5,0,b\n",
        "x,y,label\n0.15,0.2,a\n-0.4,0,b\n-0.4,0.1,b\n",
    ],
}


@pytest.mark.parametrize("epsilon", only([0.01, 2.0], {0.01}.__contains__))
@pytest.mark.parametrize("case", ODD)
def test_odd_points_are_summed_and_trained_on(case, epsilon, tmp_path):
    if case == "from csv":
        skip_without_tables()
    nodes = with_policy(tmp_path, nodes_of(tmp_path / "nodes", ODD[case]), TINY)
    run = hull_run(tmp_path, nodes=nodes, hull__epsilon=epsilon)
    assert run.summary["status"] == "completed"
    assert len(run.described["clients"]) == len(ODD[case])
    if case != "from csv":
        assert decoded(run) == expected([training(part) for part in ODD[case]], epsilon)
    stored = arrays_of(run)
    assert set(stored["group"].tolist()) == {0, 1}
    assert np.isfinite(stored["normals"]).all()


@pytest.mark.parametrize("svm", ["soft", "hard"])
def test_two_classes_in_the_same_place(svm, tmp_path):
    """Nothing separates them: a soft margin trains all the same, a hard one says that it cannot."""
    same = [npz([[0.1, 0.1], [0.2, 0.1], [0.1, 0.2]] * 4, "000222000222")] * 2
    settings = {"nodes": nodes_of(tmp_path / "nodes", same), "hull__svm": svm, "hull__c": "auto"}
    if svm == "hard":
        with refuses("unlearnable", error=RoundError):
            hull_run(tmp_path, **settings)
    else:
        assert decoded(hull_run(tmp_path, **settings)) == expected(
            [training(part) for part in same], 0.01
        )


ONE_BIN = {"hull__epsilon": 400.0, "hull__radius": 0.96}


@pytest.mark.parametrize(
    ("parts", "settings", "text"),
    [
        ([blobs("0"), blobs("0", seed=1)], {}, "classes of all clients: 1; at least 2"),
        (
            [blobs("024"), blobs("024", seed=1)],
            {"hull__grouping": "kernighan-lin"},
            "hull.grouping = .* 3 classes",
        ),
        (PAIR, {"test_data": "/none.npz"}, 'test-data = "/none.npz": no file'),
        (PAIR[:1], {}, "1 client can take part"),
        (PAIR, {"hull__cap": 100_000, "hull__num_classes": 5000}, r"hull\.cap|hull\.num"),
    ],
    ids=["one class", "bisection of three", "test data", "one client", "length"],
)
def test_what_cannot_be_done_ends_the_run_before_anything_is_sent(parts, settings, text, tmp_path):
    recorder = Recorder()
    with pytest.raises(ConfigError, match=text) as caught:
        hull_run(
            tmp_path, nodes=nodes_of(tmp_path / "nodes", parts), intercept=recorder, **settings
        )
    assert phases(recorder) == {"describe"}
    assert Run(tmp_path / "run").summary["error"] == str(caught.value)


def test_more_classes_than_the_public_number(tmp_path, caplog):
    run = hull_run(
        tmp_path,
        nodes=nodes_of(tmp_path / "nodes", [*PAIR, blobs("024", seed=2)]),
        hull__num_classes=2,
    )
    assert decoded(run) == expected([training(part) for part in PAIR], 0.01)
    (row,) = [row for row in run.clients if row["dropped"]]
    assert (row["partition"], row["phase"]) == ("2", "measure")
    assert row["dropped"].startswith("there are points of more classes than the public number, …")


def test_a_cap_below_a_hull_thins_it_and_says_so(tmp_path, caplog):
    plain = hull_run(tmp_path, "plain", hull__epsilon=0.1)
    thinned = hull_run(tmp_path, "thinned", hull__epsilon=0.1, hull__cap=5)
    everything, kept = decoded(plain), decoded(thinned)
    assert all(len(hull) == 5 for client in kept for hull in client)
    whole = {frozenset(hull) for client in everything for hull in client}
    assert all(any(set(hull) <= one for one in whole) for client in kept for hull in client)
    lost = sum(len(hull) - 5 for client in everything for hull in client)
    assert thinned.summary["metrics"]["hull_vertices_thinned"] == lost
    assert caplog.text.count("as a hull may have at most 5 (hull.cap): ") == 3
    assert thinned.summary["global_accuracy"] > 0.8


def test_more_hulls_in_a_bin_than_h_and_another_number_of_classes_are_noticed(tmp_path):
    with refuses("no-sum", "hull.h = 2", error=RoundError):
        hull_run(tmp_path, clients=5, hull__code="bose-chowla", hull__h=2, **ONE_BIN)
    with refuses("num-classes", "hull.num-classes = 5", 2, error=ConfigError):
        hull_run(tmp_path, "classes", hull__num_classes=5)


@pytest.mark.parametrize("again", [False, True], ids=["at first", "whatever is asked"])
def test_a_node_that_would_tell_too_much_takes_no_part(again, tmp_path):
    """Even where the server does not mind its refusal."""
    nodes = nodes_of(tmp_path / "nodes", [*PAIR, blobs("02", seed=2)])
    nodes[0]["hull-max-share"] = 0.05
    reason = "hull-max-share is 0.05, and more of its points would leave it"
    if again:
        with pytest.raises(RoundError, match=re.escape(reason)):
            hull_run(tmp_path, nodes=nodes, intercept=_Deaf())
        return
    run = hull_run(tmp_path, nodes=nodes)
    assert decoded(run) == expected(
        [training(part) for part in (PAIR[1], blobs("02", seed=2))], 0.01
    )
    (row,) = [row for row in run.clients if row["dropped"]]
    assert (row["partition"], row["phase"]) == ("0", "measure")
    assert reason in row["dropped"]


class _Deaf:
    """Turns refusals of the phase measure into assent."""

    def __call__(self, request, handle):
        reply = handle(request)
        if phase_of(request.content) == "measure":
            reply.content["header"]["error"] = ""
        return reply


@pytest.mark.parametrize("share", ["nan", math.nan, -0.1, 50, True])
def test_a_share_that_is_none(share, tmp_path):
    nodes = nodes_of(tmp_path / "nodes", [*PAIR, blobs("02", seed=2)])
    nodes[2]["hull-max-share"] = share
    run = hull_run(tmp_path, nodes=nodes)
    (notes,) = run.described["refused"].values()
    assert notes.startswith(f"partition-id 2: hull-max-share is {share!r}")


def write_keys(folder: Path, nodes: list[dict]) -> None:
    """A signing key for every node, and one roster for all."""
    roster = folder / "roster"
    roster.mkdir(parents=True)
    for node in nodes:
        key, name = Ed25519PrivateKey.generate(), f"{node['partition-id']}.pem"
        (folder / name).write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (roster / name).write_bytes(public)
        node |= {"signing-key": str(folder / name), "roster": str(roster)}


@pytest.fixture
def signed(tmp_path) -> list[dict]:
    """Three real nodes with keys and a roster."""
    nodes = nodes_of(tmp_path / "nodes", [*PAIR, blobs("02", seed=2)])
    write_keys(tmp_path / "keys", nodes)
    return nodes


def test_with_a_roster_a_run_is_the_same(signed, tmp_path):
    recorder = Recorder()
    run = hull_run(tmp_path, nodes=signed, intercept=recorder)
    assert decoded(run) == expected([training(part) for part in [*PAIR, blobs("02", seed=2)]], 0.01)
    assert all(len(reply["parts"]["signature"]) == 64 for reply in recorder.replies("keys"))


def test_a_server_in_the_middle_is_refused(signed, tmp_path):
    """It puts a key of its own in the place of a client's, and signs it as well as it can."""

    def swap(request, handle):
        if phase_of(request.content) == "agree":
            book = request.content["parts"]
            first, *others = book["values"]
            book["values"] = [bytes(range(32)) + first[32:], *others]
        return handle(request)

    with pytest.raises(RoundError, match="partition 0: its key is not signed"):
        hull_run(tmp_path, nodes=signed, intercept=swap)
    assert not (tmp_path / "run" / "hulls.npz").exists()


def own_key_in_the_roster(node: dict) -> Path:
    return Path(node["roster"]) / "2.pem"


WRONG_KEYS = {
    "no key": (lambda node: node.pop("signing-key"), "only roster of signing-key"),
    "no roster at all": (lambda node: node.pop("roster"), "only signing-key of signing-key"),
    "misspelt": (lambda node: node.update(rooster=node.pop("roster")), 'did you mean "roster"'),
    "no file": (lambda node: node.update({"signing-key": "/none.pem"}), "there is no such file"),
    "no roster": (lambda node: node.update(roster="/none"), "roster .* is not a folder"),
    "no PEM": (lambda node: own_key_in_the_roster(node).write_text("x"), "is not a public"),
    "not in it": (lambda node: own_key_in_the_roster(node).unlink(), "is not in the roster"),
    "private": (
        lambda node: own_key_in_the_roster(node).write_bytes(
            Path(node["signing-key"]).read_bytes()
        ),
        "2.pem in the roster .* is not a public",
    ),
}


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_a_wrong_key_ends_it_with_words(case, signed, tmp_path):
    change, text = WRONG_KEYS[case]
    for node in signed if case in ("no key", "no file", "no roster") else signed[:1]:
        change(node)
    with pytest.raises((FederationError, ConfigError), match=text) as caught:
        hull_run(tmp_path, nodes=signed, min_replies=3)
    assert str(tmp_path) not in str(caught.value)


def test_points_beyond_the_public_radius_are_moved_onto_it(tmp_path, caplog):
    run = hull_run(tmp_path, hull__radius=0.5)
    assert run.summary["metrics"]["hull_points_moved"] > 0
    assert "points beyond the public radius (hull.radius), moved onto it: " in caplog.text
    assert (np.hypot(*arrays_of(run)["points"].T) <= 0.5).all()

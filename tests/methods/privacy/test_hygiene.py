"""Whatever goes wrong: no data point, no secret, no key is in a reply, a result or a log."""

import json
import logging
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from absent_extensions import skip_without, skip_without_tables
from app_runs import CLIENTS, Fault, Recorder, Run, all_bytes, real_nodes, run
from graph_fixtures import user_fields
from hull_nodes import QUICK, blobs, nodes_of
from image_fixtures import write_classes
from tiers import only

import curvfed.server_app.app
from curvfed.client_app.node import public_text
from curvfed.server_app.run import RoundError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks.errors import unreadable

MARKER = "patient 4711 has diagnosis F32"

SECURE = {"method": "fedavg", "secure_sum": True}
PLACES = {
    "reading the data": ("curvfed.client_app.client_data.load_data", {}),
    "describing them": ("curvfed.client_app.app.describe", {}),
    "setting up": ("curvfed.client_app.client.make_task", {}),
    "training": ("curvfed.strategies.base.learner.train", {}),
    "scoring": ("curvfed.tasks.graphs.client_task.NodeTask.scores", {}),
    "writing the state": ("curvfed.client_app.personal.Store.save", {}),
    "making keys": ("curvfed.client_app.secure_keys.Member.begin", SECURE),
    "writing to peers": ("curvfed.client_app.secure_keys.Member.write", SECURE),
    "masking": ("curvfed.client_app.secure.Member.mask", SECURE),
    "measuring hulls": ("curvfed.strategies.methods.hull.client.local_hulls", QUICK),
    "encoding hulls": ("curvfed.strategies.methods.hull.client.encode_hulls", QUICK),
}
"""Where an error that nobody foresaw is raised, and in what kind of run."""


def fail(*arguments: Any, **named: Any) -> None:
    """As pandas or torch would: a text with a value of the data, twice over."""
    try:
        {}[MARKER]
    except KeyError as error:
        raise RuntimeError(f"cannot convert {MARKER!r} to float") from error


def nodes_for(settings: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    if settings is QUICK:
        return nodes_of(folder, [blobs("02", seed=number) for number in range(CLIENTS)])
    return real_nodes(folder, [user_fields(120, seed=number) for number in range(CLIENTS)])


def written(folder: Path) -> bytes:
    """All that is in the files of a run."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def logged(caplog: pytest.LogCaptureFixture, part: str) -> str:
    """What the app's server or client has logged, as it is printed."""
    records = [
        record
        for record in caplog.records
        if f"{part}_app" in record.pathname or "strategies" in record.pathname
    ]
    return "\n".join(caplog.handler.format(record) for record in records)


@pytest.mark.parametrize(
    ("place", "own"),
    only(product(PLACES, [True, False]), lambda case: case[1] or case[0] == "training"),
)
def test_of_an_error_nobody_foresaw_nothing_but_kind_and_place_is_reported(
    place, own, tmp_path, monkeypatch, caplog, capfd
):
    target, settings = PLACES[place]
    nodes = nodes_for(settings, tmp_path / "nodes") if own else None
    monkeypatch.setattr(target, fail)
    recorder = Recorder()
    with caplog.at_level(logging.DEBUG), pytest.raises((RoundError, FederationError)):
        run(tmp_path / "results", nodes=nodes, intercept=recorder, **settings)
    sent, notes = (
        b"".join(all_bytes(reply) for reply in recorder.replies()),
        written(tmp_path / "results"),
    )
    for text in (sent, notes):
        assert b"RuntimeError at the client; its own log says more" in text
        assert MARKER.encode() not in text
    assert MARKER not in logged(caplog, "server")
    kept = logged(caplog, "client")
    assert "RuntimeError" in kept
    assert "KeyError" in kept
    assert Path(__file__).name in kept
    assert (MARKER in kept) is not own
    assert not own or MARKER not in caplog.text + "".join(capfd.readouterr())


def test_a_reply_that_cannot_be_written_is_an_error_too(tmp_path, monkeypatch, caplog):
    """What shows only when the reply is made: nothing of it gets out to Flower, which logs."""
    monkeypatch.setattr(
        "curvfed.client_app.rounds._curvature", lambda client: {"curvature": MARKER}
    )
    recorder = Recorder()
    with pytest.raises(
        RoundError, match="partition 2: ValueError at the client; its own log says more"
    ):
        run(tmp_path, nodes=nodes_for({}, tmp_path / "nodes"), intercept=recorder)
    assert len(recorder.replies("train")) == CLIENTS
    assert not [reply for reply in recorder.replies() if MARKER.encode() in all_bytes(reply)]
    assert MARKER not in caplog.text


def test_secrets_of_a_sum_are_in_no_text_of_an_error(tmp_path, monkeypatch, caplog):
    """Not even where the text of an exception holds all of them."""
    secrets: set[bytes] = set()

    def leak(member: Member, vector: np.ndarray, session: Session, basis: Basis) -> None:
        secrets.update((member.secret, *member.shared_secrets.values()))
        raise ValueError(f"{secrets} {vector.tolist()} {session} {basis}")

    monkeypatch.setattr(Member, "mask", leak)
    recorder = Recorder()
    nodes = nodes_for(SECURE, tmp_path / "nodes")
    with caplog.at_level(logging.DEBUG), pytest.raises(RoundError):
        run(tmp_path / "results", nodes=nodes, intercept=recorder, **SECURE)
    notes = (
        written(tmp_path)
        + caplog.text.encode()
        + b"".join(all_bytes(reply) for reply in recorder.replies("train"))
    )
    assert len(secrets) >= 2 * CLIENTS
    for secret in secrets:
        assert secret not in notes
        assert secret.hex().encode() not in notes
        assert repr(secret)[2:-1].encode() not in notes


def broken_image(folder: Path) -> Path:
    write_classes(folder / "own", {"cat": 4, "dog": 4})
    for name in ("cat", "dog"):
        (folder / "own" / name / "smith-47110816.png").write_bytes(b"no image")
    return folder / "own"


def smaller_image(folder: Path) -> Path:
    write_classes(folder / "own", {"cat": 4, "dog": 4})
    write_classes(folder / "other", {"dog": 1}, (5, 5))
    next((folder / "other" / "dog").iterdir()).rename(
        folder / "own" / "dog" / "zz smith 47110816.png"
    )
    return folder / "own"


def headless_table(folder: Path) -> Path:
    """A first row that holds no number is taken for the names of the columns."""
    skip_without_tables()
    (folder / "own.csv").write_text("smith 47110816,F32.9,female,Mainz\n0.1,0.2,3,4\n")
    return folder / "own.csv"


def other_arrays(folder: Path) -> Path:
    np.savez(folder / "own.npz", smith47110816=np.zeros((3, 2)))
    return folder / "own.npz"


def damaged_collection(folder: Path) -> Path:
    skip_without("MUTAG")
    for part, text in (
        ("A", "1, 2\n2, 1\n"),
        ("graph_indicator", "1\n1\n"),
        ("graph_labels", "F32.9 of 47110816\n"),
    ):
        (folder / f"smith 47110816_{part}.txt").write_text(text)
    return folder


def two_collections(folder: Path) -> Path:
    skip_without("MUTAG")
    for name in ("smith47110816", "jones47120816"):
        (folder / f"{name}_A.txt").write_text("")
    return folder


def no_graph(folder: Path) -> Path:
    torch.save({"x": torch.tensor([[47110816.0, float("nan")]])}, folder / "own.pt")
    return folder / "own.pt"


UNFIT = {
    broken_image: (
        "data-path: image … cannot be read (UnidentifiedImageError: …), nor can …; allowed are"
    ),
    smaller_image: "data-path: image … is …x… (height x width), the images before it are …x…",
    headless_table: (
        'data-path has … columns and none is named "label" (points.label-key); its columns are …'
    ),
    other_arrays: "data-path lacks x_train, y_train; it holds …, required are",
    damaged_collection: "data-path/…graph_labels.txt: unreadable at row …; each row must hold",
    two_collections: "data-path holds the data sets …; it must hold the files of one",
    no_graph: "data-path: x has NaN or infinite values in … of … rows",
}
"""Data of a node's own that cannot be used, and what the server is told of them."""


@pytest.mark.parametrize("make", UNFIT, ids=lambda make: make.__name__)
def test_the_server_is_reported_what_is_wrong_with_a_nodes_data_and_no_name_of_a_file(
    make, tmp_path, caplog
):
    folder = tmp_path / "home of smith"
    folder.mkdir()
    node = {"partition-id": 0, "data-path": str(make(folder)), "state-path": str(folder / "state")}
    method = {
        headless_table: "hull",
        other_arrays: "hull",
        broken_image: "fedavg",
        smaller_image: "fedavg",
    }
    recorder = Recorder()
    with pytest.raises(FederationError) as caught:
        run(
            tmp_path / "results",
            nodes=[node],
            intercept=recorder,
            method=method.get(make, "flatland"),
        )
    for text in (
        str(caught.value),
        json.dumps(Run(tmp_path / "results" / "run").summary, ensure_ascii=False),
    ):
        assert UNFIT[make] in text.replace('\\"', '"')
    notes = written(tmp_path / "results") + b"".join(
        all_bytes(reply) for reply in recorder.replies()
    )
    assert not [
        word
        for word in ("smith", "47110816", "47120816", "F32.9", "Mainz", str(folder))
        if word.encode() in notes
    ]
    assert str(folder) in logged(caplog, "client")


def test_the_words_of_a_library_are_left_out_with_the_place_of_the_data_in_them(tmp_path):
    path = tmp_path / "cells.h5ad"
    error = unreadable(path, ValueError(f"{path} has the column Mainz"), ".h5ad file")
    assert "Mainz" in str(error)
    text = public_text(error, {"partition-id": 0, "data-path": str(path)})
    assert text.startswith("data-path cannot be read (ValueError)")
    assert "Mainz" not in text


@pytest.mark.parametrize("given", ["x", "~nobody-here"])
def test_places_of_a_node_are_reported_by_their_keys(given, tmp_path, monkeypatch, caplog):
    """Also given relative to the node's folder, or to a home that there is not."""
    monkeypatch.chdir(tmp_path)
    nodes = [{"partition-id": 0, "data-path": given, "state-path": f"{given}-state"}]
    with pytest.raises(
        FederationError, match="no file data-path; expected a torch_geometric"
    ) as caught:
        run(tmp_path / "results", nodes=nodes)
    assert str(tmp_path) not in str(caught.value)
    assert f"no file {tmp_path}/{given}; expected" in logged(caplog, "client")


ENDS = {
    SystemExit(0): "interrupted",
    SystemExit(1): "ended by Flower, whose own log says why",
    KeyboardInterrupt(): "interrupted",
}


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_run_that_is_stopped_says_so_before_all_else(end, tmp_path, monkeypatch):
    """Flower turns a signal into an exit and kills 5 s later, maybe in the midst of the report."""

    def stop(request, handle) -> None:
        raise end

    def slow(directory) -> None:
        seen.append(json.loads((directory.path / "summary.json").read_text()))
        raise SystemExit(9)

    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(curvfed.server_app.app, "_report", slow)
    with pytest.raises(SystemExit, match="9"):
        run(tmp_path, intercept=Fault(1, stop, "train", 2), num_rounds=3, report=True)
    (summary,) = seen
    assert (summary["status"], summary["error"], summary["rounds"]) == ("failed", ENDS[end], 1)
    assert list((tmp_path / "run" / "checkpoint" / "server").glob("00000001.*"))

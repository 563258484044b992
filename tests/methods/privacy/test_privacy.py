"""What leaves a client: the documented values, the shared parameters, nothing personal."""

import json
import re
from collections.abc import Collection
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import (
    Fault,
    Recorder,
    Run,
    all_bytes,
    all_numbers,
    forged,
    newest,
    parameters_in,
    partition_of,
    phase_of,
    real_nodes,
    run,
    value_names,
)
from flwr.app import Error, Message
from graph_fixtures import user_fields, user_graphs
from image_fixtures import write_classes
from method_page import assert_matched, documented_methods
from tiers import only

from curvfed.client_app import app as client_side
from curvfed.client_app.clients_in_memory import get_client
from curvfed.client_app.node import Node
from curvfed.client_app.rounds import class_sums
from curvfed.server_app.run import RoundError
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays, encode_reply
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import MESSAGE_TYPES, SUM, Header, Reply
from curvfed.tasks.errors import DataError

PAGE = Path(__file__).parents[3] / "docs" / "values.md"
EVERY = [*(set(MESSAGE_TYPES) - {SUM}), "hulls"]
"""All phases of runs of the core's methods; a one-shot method names that of its sum."""
SECRET = "patient 4711 has diagnosis F32"
SHARED = {"fedala": "parameter/own/"}
"""Beginning of the names of what a client keeps of its last reply: it is shared, and no secret."""


def documented() -> dict[str, set[tuple[str, str]]]:
    """(phase, record.key) by the word for who sends it, from lines such as "| `train` `evaluate` |
    `metrics.score` `metrics.loss` | always | … |"."""
    result: dict[str, set[tuple[str, str]]] = {"always": set(), "shared": set(), "parts": set()}
    for phases, values, sent in re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| (always|shared|parts) \| .+ \|$", PAGE.read_text(), re.MULTILINE
    ):
        names = list(EVERY) if phases == "`every`" else re.findall(r"`([\w-]+)`", phases)
        result[sent] |= set(product(names, re.findall(r"`([\w.*]+)`", values)))
    return result


def own_graphs(folder: Path, scale: float = 1.0) -> list[dict]:
    """Four real nodes with graphs of their own, of 120, 130, 140 and 150 nodes."""
    graphs = [user_fields(120 + 10 * index, seed=index) for index in range(4)]
    return real_nodes(folder, [graph | {"x": scale * graph["x"]} for graph in graphs])


def own_images(folder: Path) -> list[dict]:
    """Four real nodes with folders of images of their own, of 52, 54, 56 and 58 images."""
    nodes = real_nodes(folder, [{}] * 4)
    for index, node in enumerate(nodes):
        node["data-path"] = str(folder / f"images{index}")
        write_classes(folder / f"images{index}", {"cat": 24 + index, "dog": 28 + index}, seed=index)
    return nodes


def own_points(folder: Path) -> list[dict]:
    """Four real nodes with points of two classes in the disc, some of them to test on."""
    nodes = real_nodes(folder, [{}] * 4)
    for index, node in enumerate(nodes):
        generator = np.random.default_rng(index)
        points = np.array([[0.5, 0.0], [-0.5, 0.0]])[np.arange(30) % 2] + generator.uniform(
            -0.2, 0.2, (30, 2)
        )
        labels = np.arange(30) % 2
        node["data-path"] = str(folder / f"points{index}.npz")
        np.savez(
            node["data-path"],
            x_train=points[:20],
            y_train=labels[:20],
            x_test=points[20:],
            y_test=labels[20:],
        )
    return nodes


def chained(recorder: Recorder):
    """Records what is answered, but for one client's answer to the phase train, which is lost."""

    def intercept(request, handle):
        reply = recorder(request, handle)
        return (
            None
            if phase_of(request.content) == "train" and partition_of(reply.content) == 1
            else reply
        )

    return intercept


def sent_values(recorder: Recorder) -> set[tuple[str, str]]:
    return {
        (phase_of(asked), name) for asked, reply in recorder.pairs for name in value_names(reply)
    }


class Watch(Recorder):
    """Records the messages, and what each client has on its disk after each of them."""

    def __init__(self, folder_of) -> None:
        super().__init__()
        self.folder_of = folder_of
        self.kept: list[dict[str, np.ndarray]] = []

    def __call__(self, request, handle):
        reply = super().__call__(request, handle)
        self.kept.append(newest(self.folder_of(partition_of(self.pairs[-1][1]))))
        return reply

    def check(self, keeps: Collection[str], shared: str | None = None) -> None:
        """What is kept is what such patterns say, and no message, in either direction, holds its
        bytes or its scalars, but for what is shared."""
        tensors: set[bytes] = set()
        scalars: set[float] = set()
        for arrays in self.kept:
            for name, array in arrays.items():
                if shared and name.startswith(shared):
                    continue
                if array.size > 1 and array.min() < array.max():
                    if not all(map(_is_first_step, array.ravel().tolist())):
                        tensors.add(array.tobytes())
                elif name.startswith(("parameter/moments/step/", "parameter/stage")):
                    pass  # a number of steps, or whether there were any, is no secret
                elif (
                    name.startswith("parameter/")
                    and array.size == 1
                    and not _is_first_step(array.item())
                ):
                    scalars.add(float(array.item()))
        kept = set().union(*map(parameters_in, self.kept))
        assert_matched(kept, keeps)
        assert tensors
        for content in [message for pair in self.pairs for message in pair]:
            blob, numbers = all_bytes(content), all_numbers(content)
            assert not any(tensor in blob for tensor in tensors)
            assert not np.isin(list(scalars), numbers).any()


def _is_first_step(value: float) -> bool:
    """Adam's first step has one length whatever the gradient: many parameters that start at 0 are
    then the same.

    It is the learning rate, or .744 of it where the gradient of the step before was 0, as dropout
    can make it.
    """
    return abs(value) < 1e-12 or any(abs(abs(value) - step) < 1e-6 for step in (0.01, 0.00744137))


def test_the_check_sees_a_tensor_and_a_scalar_that_are_sent():
    watch = Watch(None)
    shared = {"w": np.arange(4, dtype=np.float32)}
    for leak in ({"m": np.array([3, 1, 2], np.float32)}, {"k": np.array(0.3, np.float32)}):
        content = encode_reply(Reply(Header("run", "train", 1), 0, arrays=shared | leak))
        watch.pairs = [(content, content)]
        watch.kept = [
            {
                f"parameter/{name}": array
                for name, array in (leak | {"other": np.arange(9.0)}).items()
            }
        ]
        with pytest.raises(AssertionError):
            watch.check({*leak, "other"})


@pytest.mark.parametrize(
    "method",
    only(
        [name for name, row in METHODS.items() if row.personal or learner_class(row).own_model],
        {"flatland", "fedper", "local", "ditto", "scaffold", "fed-pub"}.__contains__,
    ),
)
def test_no_personal_parameter_travels_in_a_simulation(method, tmp_path):
    watch = Watch(
        lambda partition: tmp_path / "run" / "checkpoint" / "clients" / f"{partition:05d}"
    )
    run(
        tmp_path,
        method=method,
        num_rounds=3,
        clients=4,
        fraction_train=0.75,
        evaluate_every=1,
        intercept=watch,
    )
    watch.check(documented_methods()[method].keeps, SHARED.get(method))


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize(
    "method", only(["flatland", "fedper", "fedavg-bias", "local-lorentz"], "flatland".__eq__)
)
def test_no_personal_parameter_travels_between_machines(method, share, tmp_path):
    nodes = own_graphs(tmp_path / "nodes")
    watch = Watch(
        lambda partition: Path(nodes[partition]["state-path"]) / "run" / f"{partition:05d}"
    )
    run(tmp_path, method=method, nodes=nodes, num_rounds=3, share_statistics=share, intercept=watch)
    watch.check(documented_methods()[method].keeps)


@pytest.mark.parametrize("method", ["fedavg", "fedper", "flatland"])
def test_what_touches_features_and_classes_stays_where_they_differ(method, tmp_path):
    """On graphs of several feature spaces, in any method, whatever else it shares."""
    nodes = real_nodes(tmp_path / "nodes", [{}] * 3)
    for index, node in enumerate(nodes):
        torch.save(
            [graph | {"x": graph["x"].repeat(1, index + 1)} for graph in user_graphs(20, index)],
            node["data-path"],
        )
    watch = Watch(
        lambda partition: Path(nodes[partition]["state-path"]) / "run" / f"{partition:05d}"
    )
    run(tmp_path, method=method, nodes=nodes, num_rounds=3, share_statistics=True, intercept=watch)
    personal = {
        f"{layer}.{part}"
        for layer in ("input", "head.hidden", "head.out")
        for part in ("weight", "bias")
    }
    if method == "flatland":
        personal |= {"input.time", "head.hidden.time", "head.out.time", "k"}
        personal |= {
            f"layers.{n}.{name}" for n in range(3) for name in ("first.time", "second.time", "gate")
        }
    watch.check(personal)


def test_moments_stay_even_where_every_parameter_is_shared(tmp_path):
    watch = Watch(
        lambda partition: tmp_path / "run" / "checkpoint" / "clients" / f"{partition:05d}"
    )
    run(tmp_path, method="fedavg", optimizer_state="kept", num_rounds=3, intercept=watch)
    watch.check(set())


@pytest.mark.usefixtures("clock")
def test_the_values_on_the_wire_are_those_of_the_page(tmp_path, minesweeper_dir):
    private, sharing, simulated = Recorder(), Recorder(), Recorder()
    settings = {"num_rounds": 2, "fraction_train": 0.5, "local_epochs": 1}
    run(tmp_path, "a", nodes=own_graphs(tmp_path / "x"), intercept=private, **settings)
    run(
        tmp_path,
        "b",
        nodes=own_graphs(tmp_path / "y"),
        intercept=sharing,
        share_statistics=True,
        **settings,
    )
    run(
        tmp_path,
        "far",
        nodes=own_graphs(tmp_path / "z", 20.0),
        intercept=sharing,
        share_statistics=True,
        normalize="none",
        **settings,
    )
    for name, epochs in (("c", 0), ("d", 1)):
        run(
            tmp_path,
            name,
            dataset="minesweeper",
            data_dir=str(minesweeper_dir),
            intercept=simulated,
            fine_tune_epochs=epochs,
            **settings,
        )
    for name, shares, recorder in (("x", False, private), ("y", True, sharing)):
        nodes = own_images(tmp_path / f"images-{name}")
        methods = ["spherefed", *({"ccvr"} & set(METHODS))] if shares else ["spherefed"]
        for method in methods:
            run(
                tmp_path,
                f"{name}-{method}",
                nodes=nodes,
                method=method,
                train_size=0.5,
                share_statistics=shares,
                intercept=recorder,
                **settings,
            )
        run(
            tmp_path,
            f"{name}-masked",
            nodes=nodes,
            method="spherefed",
            secure_sum=True,
            seed=1,  # the open runs have asked for the start of seed 0
            train_size=0.5,
            share_statistics=shares,
            intercept=recorder,
            **settings | {"fraction_train": 1.0},
        )
        with pytest.raises(RoundError):  # where a sum fails, secrets are forgotten
            run(
                tmp_path,
                f"{name}-failed",
                nodes=own_graphs(tmp_path / f"f-{name}"),
                method="fedavg",
                secure_sum=True,
                min_replies=4,
                intercept=chained(recorder),
                share_statistics=shares,
            )
        for sums in (True, False):
            run(
                tmp_path,
                f"{name}-hull-{sums}",
                nodes=own_points(tmp_path / f"points-{name}-{sums}"),
                method="hull",
                hull__classifier="depth",
                dataset="uniform",
                share_statistics=shares,
                secure_sum=sums,
                intercept=recorder,
            )
    run(tmp_path, "e", method="hull", dataset="uniform", points__num=300, intercept=simulated)
    shared = sent_values(sharing) - sent_values(private)
    parts = {
        value for value in sent_values(simulated) - sent_values(sharing) if value[0] == "measure"
    }
    accuracies = sent_values(simulated) - sent_values(sharing) - parts
    assert {name.split(".")[1] for _, name in accuracies} == {"accuracy", "accuracy_before"}
    page = documented()
    assert sent_values(private) | accuracies == page["always"]
    assert (shared, parts) == (page["shared"], page["parts"])


def test_real_nodes_keep_their_statistics(tmp_path):
    recorder = Recorder()
    nodes = own_graphs(tmp_path / "nodes")
    result = run(tmp_path, nodes=nodes, num_rounds=2, intercept=recorder)
    assert all(not reply["statistics"] for reply in recorder.replies("describe"))
    starts = recorder.replies("start")
    assert starts
    assert all(set(reply) == {"header"} for reply in starts)
    assert all(row["curvature"] == "" for row in result.clients)
    assert result.described["heterogeneity"] is None
    facts = [asked["facts"] for asked in recorder.requests("train")]
    assert all(list(fact["figures"]) == [] for fact in facts)
    # Nor do paths of their disks, or of their users' folders.
    assert not any(str(tmp_path).encode() in all_bytes(reply) for reply in recorder.replies())
    assert result.summary["metrics"]["personal_accuracy_pooled"] is None
    assert result.summary["metrics"]["majority_accuracy"] is None
    assert result.summary["metrics"]["personal_examples"] is None


def test_a_node_can_refuse_what_the_run_asks_for(tmp_path):
    recorder = Recorder()
    nodes = own_graphs(tmp_path / "nodes")
    nodes[1]["share-statistics"] = False
    run(tmp_path, nodes=nodes, share_statistics=True, num_rounds=1, intercept=recorder)
    silent = {
        partition_of(reply) for reply in recorder.replies("describe") if not reply["statistics"]
    }
    assert silent == {1}
    for phase, name in (("start", "ricci"), ("train", "curvature")):
        notes = {
            partition_of(reply)
            for reply in recorder.replies(phase)
            if name in reply.get("metrics", {})
        }
        assert notes == {0, 2, 3}
    assert {partition_of(reply) for reply in recorder.replies("train") if "parts" in reply} == {
        0,
        2,
        3,
    }


@pytest.mark.parametrize(
    "settings", [{"method": "ccvr"}, {"method": "fedavg", "calibration": "ffc"}]
)
def test_sums_by_class_need_shared_statistics_or_a_secure_sum(settings, tmp_path):
    """The server says so before the rounds, and a node whatever the server asks. The column of ones
    for a bias sums to the sizes of classes."""
    nodes = own_images(tmp_path / "nodes")
    settings |= {"num_rounds": 0, "train_size": 0.5}
    with pytest.raises(FederationError, match="needs share-statistics"):
        run(tmp_path, "open", nodes=nodes, **settings)
    keys = {name.replace("_", "-"): value for name, value in settings.items()}
    config = parse(keys | {"dataset": "own"})
    client = get_client(config, "run", Node.read(nodes[0]))
    calibration = config.calibrator
    with pytest.raises(ConfigError, match="sizes of classes, which do not leave this node"):
        class_sums(client, calibration)
    made = run(tmp_path, nodes=nodes, secure_sum=True, **settings)
    assert "calibrated/head.weight" in made.model


@pytest.mark.parametrize("method", ["fedproto", "fedtgp", "fedhpro"])
def test_prototypes_leave_no_node_that_keeps_its_statistics(method, tmp_path):
    nodes = own_images(tmp_path / "nodes")
    recorder = Recorder()
    with pytest.raises(FederationError, match="share-statistics"):
        run(tmp_path, nodes=nodes, method=method, train_size=0.5, intercept=recorder)
    assert not recorder.replies("train")


def test_real_nodes_share_their_statistics_when_reported_to(tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path, nodes=own_graphs(tmp_path / "nodes"), share_statistics=True, intercept=recorder
    )
    for reply in recorder.replies("describe"):
        labels = user_fields(120 + 10 * partition_of(reply))["y"]
        assert reply["statistics"]["class_counts"] == torch.bincount(labels).tolist()
        assert reply["statistics"]["num_nodes"] == len(labels)
    assert len({reply["metrics"]["ricci"] for reply in recorder.replies("start")}) == 4
    assert all(-2 < float(row["curvature"]) < -2 / 3 for row in result.clients)


def shown(result: Run, recorder: Recorder, text: str) -> list[str]:
    """Where a text is seen: in messages, and in the files of the run directory."""
    blobs = {f"message {i}": all_bytes(reply) for i, reply in enumerate(recorder.replies())}
    blobs |= {str(path): path.read_bytes() for path in result.path.rglob("*") if path.is_file()}
    return [name for name, blob in blobs.items() if text.encode() in blob]


def test_the_text_of_an_error_inside_an_error_that_is_reported_stays(tmp_path, monkeypatch):
    whole = client_side.get_client

    def fail(config, name, node):
        if node.partition == 1:
            try:
                raise RuntimeError(SECRET)
            except RuntimeError as error:
                raise DataError("x.pt cannot be read") from error
        return whole(config, name, node)

    monkeypatch.setattr(client_side, "get_client", fail)
    recorder = Recorder()
    result = run(tmp_path, intercept=recorder)
    assert shown(result, recorder, SECRET) == []
    assert "partition-id 1: x.pt cannot be read" in result.described["refused"].values()


def test_the_text_of_an_error_that_flower_reports_stays(tmp_path):
    recorder = Recorder()
    fault = Fault(1, lambda request, handle: Message(Error(2, SECRET), reply_to=request))
    result = run(
        tmp_path,
        intercept=lambda request, handle: fault(request, lambda message: recorder(message, handle)),
    )
    assert shown(result, recorder, SECRET) == []
    assert [row["dropped"] for row in result.clients][
        1
    ] == "Flower reports error 2 for this client; its log, or that of the simulation, has details"


@pytest.mark.parametrize("name", ["first.time", "second.gate"])
def test_a_reply_that_carries_a_personal_parameter_is_refused(name, tmp_path):
    extra = {name: np.zeros(8, np.float32)}
    fault = Fault(
        1, forged(lambda reply: replace(reply, arrays={**reply.arrays, **extra})), round=2
    )
    result = run(tmp_path, intercept=fault)
    (row,) = [row for row in result.clients if row["dropped"]]
    assert (row["round"], row["partition"]) == ("2", "1")
    assert row["dropped"] == f"parameters do not match: unexpected ['{name}'], missing []"
    assert result.summary["metrics"]["replies_dropped"] == 1
    assert name not in result.model


def test_a_client_takes_no_personal_parameters_from_the_server(tmp_path):
    """A server that sends a time-like part cannot put it in the place of the client's own."""

    def push(request: Message, handle) -> Message:
        arrays = decode_arrays(request.content["arrays"]) | {"first.time": np.zeros(8, np.float32)}
        request.content["arrays"] = encode_arrays(arrays)
        return handle(request)

    result = run(tmp_path, intercept=Fault(1, push, round=2))
    (row,) = [row for row in result.clients if row["dropped"]]
    assert row["dropped"] == "parameters do not match: unexpected ['first.time'], missing []"


@pytest.mark.parametrize("name", ["../outside", "..", "absolute", "a/b", "", ".", "run\0"])
def test_a_client_writes_nowhere_but_below_its_own_folder(name, tmp_path):
    """Whatever run name a server sends."""
    name = str(tmp_path / "outside") if name == "absolute" else name
    nodes = own_graphs(tmp_path / "nodes")[:2]
    before = {path for path in tmp_path.rglob("*") if "run" not in path.parts}
    header = {"run": name, "phase": "train", "round": 1, "stamp": 0}

    def rename(request: Message, handle) -> Message:
        request.content["header"] = type(request.content["header"])(header)
        return handle(request)

    result = run(tmp_path, nodes=nodes, num_rounds=1, intercept=Fault(1, rename))
    assert {row["partition"] for row in result.clients if row["dropped"]} == {"1"}
    written = {
        path for path in tmp_path.rglob("*") if not {"run", "curvfed"} & set(path.parts)
    } - before
    ledgers = {f"ledger-0000{number}.{ending}" for number in (0, 1) for ending in ("jsonl", "lock")}
    assert {path.name for path in written} <= {"state0", "home", "state1", "digest.key"} | ledgers


def test_refusals_and_descriptions_are_all_the_server_writes_of_single_clients(tmp_path):
    """No client's parameters are in any file of the run directory but its own."""
    nodes = own_graphs(tmp_path / "nodes")
    recorder = Recorder()
    result = run(tmp_path, method="fedavg", nodes=nodes, intercept=recorder)
    sent = [
        decode_arrays(reply["arrays"])[name].tobytes()
        for reply in recorder.replies("train")
        for name in ("first.weight", "second.weight", "head.weight")
    ]
    written = [path.read_bytes() for path in result.path.rglob("*") if path.is_file()]
    assert not any(array in content for array in sent for content in written)
    assert json.loads((result.path / "clients.json").read_text())["clients"][0]["statistics"] == {}

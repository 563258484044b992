"""The split of a node's own data is the node's: a server that chose it took single records out of
sums over two splits, and one record less drew every other record's part anew."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from absent_extensions import needs_tables
from app_runs import run
from errors import refuses
from graph_fixtures import user_fields
from guards import needs_privacy
from hull_nodes import decoded, nodes_of
from hypothesis import given
from hypothesis import strategies as st
from image_fixtures import write_classes
from numpy.typing import NDArray
from policies import with_policy
from test_ledger import Observer, cells, hospitals
from tiers import examples

from curvfed.client_app.client import Client
from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.client_app.node.ledger import ledger_of
from curvfed.client_app.node.own_split import own_split
from curvfed.client_app.node.policy import Policy
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import open_dataset
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks.images.raw import raw_images
from curvfed.tasks.record_split import RecordSplit

pytestmark = pytest.mark.usefixtures("own_home")

MANY = "[sums]\ncontributors = 2\nothers-examples = 0\n[runs]\nconfigurations = 99\n"
"""A policy that limits no number of configurations: the split alone protects."""


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    return Observer(monkeypatch)


def points_nodes(folder: Path) -> list[dict[str, Any]]:
    return with_policy(folder, nodes_of(folder, [cells(number) for number in range(3)]), MANY)


@needs_tables
def test_no_test_size_gives_a_second_sum(tmp_path):
    """646 of 700 sums of moments were given, and gave 192 of 376 records."""
    nodes = points_nodes(tmp_path / "nodes")
    hulls = {"method": "hull", "dataset": "own", "hull__classifier": "depth"}
    first = run(tmp_path, "first", nodes=nodes, test_size=0.2, **hulls)
    for number, test_size in enumerate((0.15, 0.21, 0.5)):
        with pytest.raises(FederationError, match=f"test-size = {test_size}: this node splits"):
            run(tmp_path, f"{number}", nodes=nodes, test_size=test_size, **hulls)
    last = run(tmp_path, "auto", nodes=nodes, seed=4, **hulls)
    assert sorted(map(sorted, decoded(first))) == sorted(map(sorted, decoded(last)))


@needs_tables
def test_of_70_test_sizes_one_is_answered(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text(cells(0))
    node = Node(partition=0, data_path=path, state_path=tmp_path / "state", rules=Policy())
    ledger = ledger_of(node)
    answered = set()
    for test_size in np.linspace(0.1, 0.8, 70).tolist():
        config = parse({"method": "hull", "test-size": test_size})
        with suppress(ConfigError):
            answered.add(load_data(config, node, ledger).digest)
    assert len(answered) == 1


def galleries(folder: Path) -> list[dict[str, Any]]:
    nodes = []
    for number in range(3):
        images = folder / f"images{number}"
        write_classes(images, {"dark": 20, "light": 20}, seed=number)
        state = str(folder / f"state{number}")
        nodes.append({"partition-id": number, "data-path": str(images), "state-path": state})
    return nodes


@pytest.mark.parametrize(
    ("method", "sizes"), [("fedavg", (0.3025, 0.3050)), ("afl", (0.610, 0.615))]
)
def test_no_train_size_gives_the_sum_of_one_example_more(method, sizes, tmp_path, observer):
    """The difference of the two sums was the gradient of one example, to 6e-9."""
    nodes = hospitals(tmp_path / "nodes") if method == "fedavg" else galleries(tmp_path / "nodes")
    nodes = with_policy(tmp_path, nodes, MANY)
    settings = {"method": method, "num_rounds": int(method == "fedavg"), "secure_sum": True}
    settings["dataset"] = "own"
    first, second = sizes
    run(tmp_path, "first", nodes=nodes, train_size=first, test_size=0.2, **settings)
    number = len(observer.sums)
    with pytest.raises(FederationError, match=f"train-size = {second:g}: .* = {first:g}, of its"):
        run(tmp_path, "second", nodes=nodes, train_size=second, **settings)
    assert len(observer.sums) == number >= 1


def test_the_policy_decides_before_the_first_run(tmp_path):
    path = tmp_path / "own.pt"
    torch.save(user_fields(400), path)
    rules = Policy.model_validate({"data": {"train-size": 0.6, "test-size": 0.3}})
    node = Node(partition=0, data_path=path, state_path=tmp_path / "state", rules=rules)
    ledger = ledger_of(node)
    data = load_data(parse({}), node, ledger)
    assert [round(float(mask.float().mean()), 1) for mask in (data.train, data.test)] == [0.6, 0.3]
    with refuses("own-split", "test-size = 0.2", "0.3, of [data] in its policy", error=ConfigError):
        load_data(parse({"test-size": 0.2}), node, ledger)
    # Without the lines the node goes on as before.
    later = node.model_copy(update={"rules": Policy()})
    assert load_data(parse({"seed": 9}), later, ledger).digest == data.digest
    with refuses("own-split", "0.6, of its first run", error=ConfigError):
        load_data(parse({"train-size": 0.5}), later, ledger)
    wide = node.model_copy(
        update={"rules": Policy.model_validate({"data": {"train-size": 0.9, "test-size": 0.3}})}
    )
    with refuses("own-split", "sum is above 1", error=ConfigError):
        load_data(parse({}), wide, ledger)


def test_a_client_states_the_digest_of_its_split(tmp_path):
    """It shows another split, and another record, whatever a run sets."""
    torch.save(user_fields(60), tmp_path / "own.pt")
    state = tmp_path / "state"
    node = Node(partition=0, data_path=tmp_path / "own.pt", state_path=state, rules=Policy())
    digests = {
        Client(parse({"seed": seed, "normalize": norm}), "run", node).split_digest
        for seed, norm in enumerate(("l2", "none"))
    }
    assert [len(digest) for digest in digests] == [32]
    torch.save(user_fields(60) | {"edge_index": torch.tensor([[0], [1]])}, tmp_path / "own.pt")
    assert Client(parse({}), "run", node).split_digest not in digests
    public = Node(partition=0, num_partitions=2, state_path=state, rules=Policy())
    assert Client(parse({}), "run", public).split_digest == b""


@needs_tables
def test_a_node_without_a_training_record_says_so(tmp_path, caplog):
    """No rule moves a record: it would depend on the others."""
    path = tmp_path / "cells.csv"
    path.write_text("x,y,label\n0.1,0.2,a\n")
    caplog.set_level("WARNING", "curvfed")
    parts_seen = set()
    for number in range(20):
        node = Node(partition=0, data_path=path, state_path=tmp_path / str(number), rules=Policy())
        caplog.clear()
        data = load_data(parse({"method": "hull", "test-size": 0.5}), node)
        assert ("takes part with weight 0" in caplog.text) == (not data.train.any())
        parts_seen.add(bool(data.train.any()))
    assert parts_seen == {True, False}


def test_another_node_splits_the_same_records_otherwise(tmp_path):
    torch.save(user_fields(60), tmp_path / "own.pt")
    splits = []
    for name in ("one", "two"):
        node = Node(
            partition=0, data_path=tmp_path / "own.pt", state_path=tmp_path / name, rules=Policy()
        )
        splits.append(own_split(node, parse({}), "nodes"))
    assert splits[0] != splits[1]
    assert b"".join(split.key for split in splits if split).hex() not in repr(splits)
    assert "key" not in repr(splits)


# --- Neighbours


def points_of(values: NDArray[Any], split: RecordSplit | None, **keys: Any) -> Any:
    pairs = values.reshape(-1, 2) / 200
    labels = np.arange(len(pairs)) % 2
    from curvfed.tasks.points import RawPoints

    raw = RawPoints(pairs, labels * 0 + (values[::2] % 2).astype(np.int64), ("a", "b"), None)
    return open_dataset(parse(keys), "points", split).in_memory(raw)


def images_of(values: NDArray[Any], split: RecordSplit | None, **keys: Any) -> Any:
    pixels = torch.from_numpy(values.astype(np.uint8)).reshape(-1, 1, 1, 2).repeat(1, 1, 4, 2)
    raw = raw_images(pixels, (values[::2] % 2).astype(np.int64), ("a", "b"))
    return open_dataset(parse({"dataset": "own"} | keys), "images", split).in_memory(raw)


def nodes_of_graph(values: NDArray[Any], split: RecordSplit | None, **keys: Any) -> Any:
    from curvfed.tasks.graphs.data.raw import raw_graph

    features = torch.from_numpy(values.astype(np.float32)).reshape(-1, 2)
    edges = torch.empty(2, 0, dtype=torch.int64)
    labels = torch.from_numpy((values[::2] % 2).astype(np.int64))
    raw = raw_graph("test", features, edges, labels, class_names=["a", "b"])
    return open_dataset(parse(keys), "nodes", split).in_memory(raw)


def graphs_of(values: NDArray[Any], split: RecordSplit | None, **keys: Any) -> Any:
    from curvfed.tasks.graphs.data.raw import RawGraphs

    number = len(values) // 2
    raw = RawGraphs(
        attributes=torch.from_numpy(values.astype(np.float32)).reshape(-1, 1),
        codes=torch.empty(2 * number, 0, dtype=torch.int64),
        num_codes=0,
        measured=False,
        edge_index=torch.empty(2, 0, dtype=torch.int64),
        graph_of_node=torch.arange(number).repeat_interleave(2),
        labels=torch.from_numpy((values[::2] % 2).astype(np.int64)),
        class_names=("a", "b"),
    )
    return open_dataset(parse(keys), "graphs", split).in_memory(raw)


KINDS = [points_of, images_of, nodes_of_graph, graphs_of]
SPLIT = RecordSplit(b"secret", 0.5, 0.3)


def parts(data: Any) -> list[int]:
    return [int(train) + 2 * int(test) for train, test in zip(data.train, data.test, strict=True)]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("is_private", [False, pytest.param(True, marks=needs_privacy)])
@given(
    records=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30),
    place=st.integers(0, 29),
)
@examples(40)
def test_a_record_less_changes_nothing_but_itself(
    make: Callable[..., Any], is_private: bool, records: Sequence[tuple[int, int]], place: int
):
    """One record less changed 649 to 737 of 10,000 training records, and a sum at epsilon = 1 had
    an epsilon of up to 36.9. The split of a node, and that of every private run."""
    split = None if is_private else SPLIT
    keys: dict[str, Any] = {}
    if is_private:
        method = "hull" if make is points_of else "fedavg"
        keys = {"dp.unit": "record", "dp.epsilon": 1.0, "method": method, "secure-sum": True}
        keys |= {"fine-tune-epochs": 0}
        if make is nodes_of_graph:
            return  # no private run has nodes
    place %= len(records)
    all_parts = parts(make(np.array(records).ravel(), split, **keys))
    fewer = [*records[:place], *records[place + 1 :]]
    fewer_parts = parts(make(np.array(fewer).ravel(), split, **keys))
    # Equal records are interchangeable: the last of them is the one that is missing.
    last = max(index for index, record in enumerate(records) if record == records[place])
    after = sorted(zip(fewer, fewer_parts, strict=True))
    remaining = [*records[:last], *records[last + 1 :]]
    assert after == sorted(zip(remaining, [*all_parts[:last], *all_parts[last + 1 :]], strict=True))


@pytest.mark.parametrize("make", KINDS)
def test_no_key_of_a_run_moves_a_record(make):
    values = np.random.default_rng(0).integers(0, 100, 400)
    data = make(values, SPLIT)
    keys = {"seed": 5, "train-size": 0.1, "test-size": 0.8, "images.size": 2, "normalize": "none"}
    second = make(values, SPLIT, **keys)
    assert parts(second) == parts(data)
    assert second.split_digest == data.split_digest != ""
    assert make(values[2:], SPLIT).split_digest != data.split_digest
    shares = [float(np.mean(np.array(parts(data)) == role)) for role in (1, 0, 2)]
    expected = (0.7, 0, 0.3) if make is points_of else (0.5, 0.2, 0.3)
    assert np.allclose(shares, expected, atol=0.1)


def test_several_splits_of_a_file_are_not_chosen_by_the_seed(tmp_path):
    masks = torch.arange(120).reshape(60, 2) % 3
    fields = user_fields(60) | {
        "train_mask": masks == 0,
        "val_mask": masks == 1,
        "test_mask": masks == 2,
    }
    torch.save(fields, tmp_path / "own.pt")
    node = Node(
        partition=0, data_path=tmp_path / "own.pt", state_path=tmp_path / "state", rules=Policy()
    )
    digests = {load_data(parse({"seed": seed}), node).digest for seed in range(2)}
    assert len(digests) == 1


def test_parts_of_public_data_are_split_as_before(tmp_path):
    node = Node(partition=0, num_partitions=3, state_path=tmp_path, rules=Policy())
    config = parse({"method": "fedavg", "dataset": "digits"})
    data = load_data(config, node)
    assert data.split_digest == ""
    assert data.digest == load_data(config, Node(partition=0, num_partitions=3)).digest

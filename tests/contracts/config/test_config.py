"""The run configuration: its defaults, what it takes, what it refuses and in which words."""

import math
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

from curvfed.strategies.base.keys import value_type
from curvfed.strategies.base.run_keys import AGGREGATION_METHODS
from curvfed.strategies.config.build_method import model_spec
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import all_fields, allowed, parse
from curvfed.strategies.config.run_config import defaults, flatten
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS, aggregation_rows
from curvfed.strategies.methods.flatland import MEASURED
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks import plugins

FIELDS = dict(all_fields())
LARGE = 10**9

TIED = {
    *("images.pooled", "images.encoder"),
    *("method", "dataset", "model", "partition", "train-size", "test-size", "aggregation"),
    *("weights", "fine-tune", "optimizer", "optimizer-state", "run-name", "resume", "secure-sum"),
    *("wire-precision", "gcfl.eps1", "gcfl.eps2", "spherefed.normalize", "embedding-dim"),
    *("points.curvature", "points.classes", "calibration", "calibration-every"),
}
"""Keys that must fit others, beside those of whole tables: left at their defaults."""

TIED_TABLES = ("dp.", "flower.", "hull.", "secure.")


def value(key: str) -> st.SearchStrategy[Any]:
    """Values that a key takes, whatever the others are, over its whole range."""
    return _within(key) | st.just("auto") if FIELDS[key].default is None else _within(key)


def _within(key: str) -> st.SearchStrategy[Any]:
    field = FIELDS[key]
    kind = value_type(field)
    if get_origin(kind) is Literal:
        of_extensions = MEASURED if key == "flatland.curvature-init" else ()
        absent = {*of_extensions} - {*plugins.additions(plugins.GRAPH_CURVATURES)}
        return st.sampled_from([item for item in get_args(kind) if item not in absent])
    if kind is bool:
        return st.booleans()
    patterns = [item.pattern for item in field.metadata if getattr(item, "pattern", None)]
    if patterns:
        return st.from_regex(patterns[0].replace("$", r"\Z"))
    if kind is str:
        # The two that no path can be trusted with, and the one that an address with a password
        # would have.
        # Names of files have at most 255 bytes, which are up to four a character.
        return st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0~@"), max_size=60
        )
    ends = {
        end: getattr(item, end)
        for item in field.metadata
        for end in ("ge", "gt", "le", "lt")
        if hasattr(item, end)
    }
    high = ends.get("le", ends.get("lt", LARGE))
    low = ends.get("ge", ends.get("gt", 0 if high > 0 else -LARGE))
    if kind is int:
        return st.integers(low, high - ("lt" in ends))
    whole = [
        number
        for number in (-4, 0, 1, 2, 1000)
        if low + ("gt" in ends) <= number <= high - ("lt" in ends)
    ]
    within = st.floats(low, high, exclude_min="gt" in ends, exclude_max="lt" in ends)
    return within | st.sampled_from(whole) if whole else within


FREE = st.fixed_dictionaries(
    {},
    optional={
        key: value(key)
        for key in FIELDS
        if key not in {*TIED, "extra"} and not key.startswith(TIED_TABLES)
    },
)


def refused(raw: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    return str(caught.value)


# What is taken


@examples(36)
@given(FREE)
def test_parse_keeps_every_value_and_flatten_is_its_inverse(raw):
    config = parse(raw)
    flat = flatten(config)
    built_in = {} if raw.get("dataset", "auto") != "auto" else {"dataset": config.dataset}
    given = {key: item for key, item in (raw | built_in).items() if key in flat}
    rows = (*METHODS.values(), *aggregation_rows().values())
    others = {key for row in rows for key in row.keys} - {key.partition(".")[0] for key in flat}
    assert (
        flat
        == {key: item for key, item in defaults().items() if key.partition(".")[0] not in others}
        | given
    )
    assert parse(flat).with_unread({}) == config.with_unread({})
    assert hash(parse(flat)) == hash(config)


@pytest.mark.parametrize(
    "raw",
    [
        {"model": "gin"},
        {"method": "local", "model": "cnn"},
        {"method": "fedavg", "partition": "metis", "model": "convnet"},
    ],
)
def test_real_nodes_may_bring_what_no_data_set_names(raw):
    """And what is written of their run is taken again: resumed runs and predictions read it."""
    assert parse(flatten(parse(raw))) == parse(raw)


def test_folders_are_below_the_users_home_unless_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse({}).results_path == tmp_path / "curvfed" / "results"
    assert parse({}).data_path == tmp_path / "curvfed" / "data"
    assert parse({"results-dir": "~/r", "data-dir": "/d"}).results_path == tmp_path / "r"
    assert parse({"data-dir": "/d"}).data_path == Path("/d")


# What is refused: one key


WRONG_TYPE = {
    bool: [1, "true", 0.0],
    int: ["3", 1.5, 1.0, True, ""],
    float: ["0.1", True, b"1"],
    str: [3, True, 0.5],
}


def test_wrong_type_names_key_value_and_what_is_allowed():
    for key, field in FIELDS.items():
        for wrong in WRONG_TYPE.get(value_type(field), [7, 0.5, "nothing of the sort", b"auto"]):
            # where the default is a text, numbers come as texts
            if field.default is None and wrong in ("3", "0.1"):
                continue
            line = f"{key} = {wrong!r}: allowed is {allowed(field)}"
            assert refused({key: wrong}).startswith(line)
    several = {"seed": -4, "num-rounds": "abc", "learning-rate": math.nan, "fedprox.mu": -1}
    assert [line.partition(" ")[0] for line in refused(several).splitlines()] == [*several]


def out_of_range(key: str) -> list[Any]:
    """Values of the right type at and beyond the ends of a key's range, and words it does not have."""
    kind = value_type(FIELDS[key])
    if get_origin(kind) is Literal:
        return [99 if isinstance(get_args(kind)[0], int) else "no such word"]
    ends = {
        end: getattr(item, end)
        for item in FIELDS[key].metadata
        for end in ("ge", "gt", "le", "lt")
        if hasattr(item, end)
    }
    step = 1 if kind is int else 1e-9
    beyond = {"ge": -step, "gt": 0, "le": step, "lt": 0}
    values = [kind(end + beyond[name] * max(1, abs(end))) for name, end in ends.items()]
    return [*values, math.nan, math.inf] if kind is float else values


def test_out_of_range_names_key_value_and_range():
    for key, field in FIELDS.items():
        for wrong in out_of_range(key):
            assert refused({key: wrong}).startswith(
                f"{key} = {wrong!r}: allowed is {allowed(field)}"
            )
    assert len(list(filter(out_of_range, FIELDS))) > 40


FORMS = {
    "run-name": ["../elsewhere", "a/b", ".hidden", "a b", "a\n", "x" * 129, "ü"],
    "device": ["gpu", "cuda:", "cuda:0\n", "CPU", "mps"],
    "sinks": ["tensorboard,", "mlflow, tensorboard"],
}


@pytest.mark.parametrize(
    ("key", "wrong"), [(key, wrong) for key, wrongs in FORMS.items() for wrong in wrongs]
)
def test_names_of_runs_and_devices_and_lists_have_a_form(key, wrong):
    assert refused({key: wrong}) == f"{key} = {wrong!r}: allowed is {allowed(FIELDS[key])}"


@pytest.mark.parametrize("key", ["dataset", "data-dir", "results-dir", "test-data"])
@pytest.mark.parametrize(
    "path",
    ["a\0b.pt", "~nobody-of-this-name/x.pt", "x" * 5000 + ".pt", "loop/x.pt", "loop", "\udce9.pt"],
)
def test_what_can_be_no_path_is_refused(key, path, tmp_path, monkeypatch):
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    message = refused({key: path})
    assert message.startswith(f"{key} = {path[:80]!r}"[:-1])
    assert len(message) < 300


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("num_rounds", "num-rounds"),
        ("learning-rat", "learning-rate"),
        ("flatland.gates", "flatland.gate"),
        ("secure-sums", "secure-sum"),
        ("gate", "flatland.gate"),
        ("num-clients", "num-supernodes"),
    ],
)
def test_unknown_key_names_the_nearest(key, nearest):
    message = refused({key: 1})
    assert message.startswith(f'unknown key "{key}"')
    assert f'did you mean "{nearest}"' in message


def test_a_table_that_is_given_a_value_is_named_as_one():
    message = refused({"flatland": 3})
    assert message.startswith('unknown key "flatland"; it is a table of keys, such as "flatland.')


@pytest.mark.parametrize("key", ["seed.foo", "dataset.a", "method.f", "num-rounds.x"])
def test_a_part_of_a_key_that_is_no_table_is_unknown(key):
    table = key.partition(".")[0]
    message = refused({key: 1})
    assert message.startswith(f'unknown key "{key}"')
    assert f'No installed method has keys of "{table}"' in message


# What is refused: keys together


def conflict(key: str, raw: dict[str, Any], *fragments: object) -> None:
    """Expect a refusal of this kind whose text names the fragments."""
    with refuses(key, *fragments, error=ConfigError):
        parse(raw)


def test_numbers_that_commands_pass_on_as_texts_are_numbers():
    raw = {"method": "fedavg", "aggregation": "flower:MultiKrum"}
    texts = {"flower.num-malicious-nodes": "2", "flower.num-nodes-to-select": "auto"}
    keys = parse(raw | texts).flower
    assert (keys.num_malicious_nodes, keys.num_nodes_to_select) == (2, None)
    assert parse(ETA | {"aggregation": "flower:FedAdam", "flower.eta": "1e-2"}).flower.eta == 0.01


def test_a_sum_is_enough_for_averages_and_hulls():
    linear = {"average", "fedopt", "scaffold", "feddyn", "interpolated", "fednova", "one-shot"}
    linear |= {"rows", "prototypes", "feddbe", "hyper-prototypes"}
    for method, row in METHODS.items():
        raw = {"method": method, "secure-sum": True}
        if row.aggregation in linear | {"noisy-average"}:
            assert parse(raw).secure_sum
        else:
            keys = ["secure-sum", "method"]
            if row.aggregation in AGGREGATION_METHODS:  # another aggregation would do
                keys.append("aggregation")
            conflict("-with-".join(keys), raw, method)


def test_clients_that_prepare_a_sum_keep_their_method_s_server():
    raw = {"method": "fednova", "secure-sum": True, "aggregation": "average"}
    conflict("secure-sum-with-method-with-aggregation", raw, "aggregation = fednova")


SGD = ("optimizer-with-optimizer-state-with-method", 'optimizer="sgd" optimizer-state="fresh"')
FLOWER = "flower-eta-with-aggregation"
ETA = {"method": "fedavg", "flower.eta": 0.5}


@pytest.mark.parametrize(
    ("key", "raw", "fragments"),
    [
        ("no-data-set", {"dataset": "coral"}, ("coral", '"cora"?', plugins.lister("datasets"))),
        ("no-data-set", {"dataset": "fashion-mnits"}, ('"fashion-mnist"?',)),
        (
            "dataset-with-method",
            {"dataset": "digits", "method": "flatland"},
            ('"digits"', '"flatland"', "nodes and graphs", "or method=hyperfed"),
        ),
        (
            "dataset-with-method",
            {"dataset": "mine.pt", "method": "hyperfed"},
            ('"mine.pt"', '"hyperfed"', "nodes or graphs", "images"),
        ),
        (
            "dataset-with-method",
            {"dataset": "cells.npz", "method": "flatland"},
            ('"cells.npz"', '"flatland"', "points", "nodes and graphs", ".pt"),
        ),
        ("no-data-set", {"dataset": "cells.xyz"}, (".xyz", plugins.lister("datasets"))),
        ("no-such-method", {"method": "flatlands"}, ('"flatland"?', plugins.lister("methods"))),
        (
            "no-such-method",
            {"method": "fedavgg", "fedavgg.step": 0.3},
            ('method = "fedavgg"', '"fedavg"?'),
        ),
        ("no-such-method", {"method": "?"}, ('"?" is not known. ', plugins.lister("methods"))),
        (
            "several-methods",
            {"method": "fedavg,hull"},
            ("one method a run", plugins.lister("compare")),
        ),
        (
            "no-such-model",
            {"dataset": "cora", "model": "gin"},
            ("gin", "auto, gated, gcn, lorentz, mean, split"),
        ),
        ("no-such-model", {"method": "hull", "model": "gcn"}, ("gcn", "points is one of auto")),
        (
            "no-such-partition",
            {"dataset": "cora", "partition": "iid"},
            ("iid", "louvain, metis, random"),
        ),
        (
            "no-such-partition",
            {"method": "hyperfed", "partition": "stratified"},
            ("stratified", "auto, dirichlet, iid, shards"),
        ),
        ("model-with-method", {"method": "fed-pub", "model": "lorentz"}, ("auto, gcn or gin",)),
        (
            FLOWER,
            ETA | {"aggregation": "flower:MultiKrum"},
            ("flower.eta = 0.5", "flower.num-malicious-nodes, flower.num-nodes-to-select"),
        ),
        (FLOWER, ETA | {"aggregation": "flower:FedMedian"}, ("flower:FedMedian", "no key")),
        ("flower-q-with-aggregation", {"flower.q": 1}, ("flower.q = 1.0", "auto", "no key")),
        ("resume-with-run-name", {"resume": True}, ("resume = true", 'run-name = ""')),
        (SGD[0], {"optimizer-state": "kept", "method": "fednova"}, ('"kept"', SGD[1])),
        (
            "learning-rate-with-aggregation",
            {"method": "fedavg", "aggregation": "flower:QFedAvg", "learning-rate": 0.0},
            ("learning-rate = 0.0", "flower.client-learning-rate"),
        ),
        (
            "images-pooled-with-images-test-subset",
            {"dataset": "digits", "images.pooled": True, "images.test-subset": 9},
            ("images.pooled = true", "images.test-subset = 9", "one of them"),
        ),
        ("train-size-with-test-size", {"train-size": 0.7, "test-size": 0.4}, (0.7, 0.4, 1)),
        (
            "secure-group-size-with-secure-sum",
            {"method": "fedavg", "secure.group-size": 3},
            ("secure.group-size = 3", "secure-sum = true"),
        ),
        ("points-classes", {"method": "hull", "points.classes": "3,3"}, ('"3,3"', "2 classes")),
        (
            "hull-svm-with-hull-c",
            {"method": "hull", "hull.svm": "hard", "hull.c": 0.1},
            ('"hard"', 0.1, "hull.c = auto"),
        ),
        (
            "hull-svm-with-hull-classifier",
            {"method": "hull", "hull.svm": "hinge", "hull.classifier": "depth"},
            ('hull.svm = "hinge"', 'hull.classifier = "depth"', 'hull.classifier = "svm"'),
        ),
        (
            "fine-tune-with-method",
            {"method": "fedetf", "dataset": "digits", "fine-tune": "closed-form"},
            ('fine-tune = "closed-form"', 'method = "fedetf"', "closed-form with spherefed"),
        ),
    ],
)
def test_keys_must_fit_each_other(key, raw, fragments):
    """And for a size that is absent what the task takes in its place."""
    given = {"method": "fedavg"} | raw if "images.pooled" in raw else raw
    conflict(key, given, *fragments)


def test_a_graph_network_needs_a_column():
    """Data that a client reads for itself may have been images as far as the server knows."""
    config = parse({"method": "fedavg", "dataset": "own", "embedding-dim": 0})
    with refuses("embedding-dim-with-dataset", "embedding-dim = 0", "1 or more", error=ConfigError):
        model_spec(config, Facts("nodes", 4, ("a", "b")))


# The tables of a run


@pytest.mark.parametrize(
    "raw",
    [
        defaults() | {"method": "fedavg"},
        {"method": "fedavg", "model": "lorentz", "flatland.curvature-map": "exp"},
        {"method": "fedhgcn", "flatland.gate": False},
        {"method": "fedavg", "hull.num-classes": 2},
        {
            "method": "hyperfed-averaged",
            "aggregation": "consistent",
            "hyperfed.solver": "frank-wolfe",
        },
        {"method": "hull"},
    ],
)
def test_a_key_that_the_run_reads_or_with_its_default_is_not(raw):
    config = parse(raw)
    assert (dict(config.unread), unread_keys(config)) == ({}, "")


@pytest.mark.parametrize(
    ("method", "key", "value", "readers"),
    [
        ("hull", "num-rounds", 5, "methods with rounds"),
        ("hull", "learning-rate", 0.1, "methods with rounds"),
        ("hyperfed-averaged", "hyperfed.solver", "frank-wolfe", "hyperfed, hyperfed-fixed"),
        ("fedavg", "flatland.proximal", 0.1, "flatland"),
        # of a quantiser that would be refused, and of one that would not
        ("fedavg", "hull.epsilon", 1e-9, "hull"),
        ("fedavg", "hull.epsilon", 1e9, "hull"),
    ],
)
def test_a_key_without_effect_is_named_with_its_readers(method, key, value, readers):
    parts = {"flatland": {"model": "lorentz"}, "hull": {"dataset": "uniform"}}
    config = parse({"method": method, key: value, **parts.get(readers, {})})
    assert dict(config.unread) == {key: value}
    assert f" is a key of {readers}" in unread_keys(config)
    assert not parse({"method": "flatland", "flatland.proximal": 0.1}).unread


@pytest.mark.parametrize("method", ["fedavg", "hull"])
def test_the_public_number_of_classes_is_that_of_the_chosen_ones(method):
    raw = {"method": method, "dataset": "uniform", "points.classes": "0,1"}
    for number in ("auto", 2):
        assert not parse(raw | {"hull.num-classes": number}).unread
    conflict("hull-num-classes-with-points-classes", raw | {"hull.num-classes": 3}, 3, "auto or 2")


def test_a_fixed_curvature_reads_no_key_of_a_learned_one():
    learned = {
        "flatland.curvature-init": "literal",
        "flatland.vertex-weights": "degree",
        "flatland.curvature-map": "wide",
    }
    for curvature in (-2.0, 0.0):
        config = parse({"method": "flatland", "flatland.curvature": curvature, **learned})
        assert dict(config.unread) == learned
    assert not parse({"method": "flatland", **learned}).unread
    constant = parse({"method": "flatland", **learned, "flatland.curvature-init": "constant"})
    assert set(constant.unread) == {"flatland.vertex-weights"}


@pytest.mark.parametrize(
    ("method", "dataset"),
    [
        ("hyperfed", "cells.csv"),
        ("flatland", "cells.csv"),
        ("hull", "mine.pt"),
        ("flatland", "digits"),
        ("flatland", "cells.xyz"),
        ("flatland", "coraa"),
    ],
)
def test_a_wrong_data_set_is_refused_in_few_words(method, dataset):
    """What is wrong, where, and what is allowed; the lists of all stand elsewhere."""
    with pytest.raises(ConfigError) as caught:
        parse({"method": method, "dataset": dataset})
    text, _, _ = str(caught.value).partition(" (This copy of curvfed lacks")
    assert f'dataset = "{dataset}"' in text
    assert plugins.lister("datasets") in text
    assert len(text.split()) <= 60 or not plugins.lister("datasets")

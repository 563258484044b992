"""The run configuration: its defaults, what it takes, what it refuses and in which words."""

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from curvfed.deployments.request import check_place
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import Table, value_type
from curvfed.strategies.base.shared_tables import FLOWER, NEED_ONLY_MEAN, SHARED, FlowerName
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.checks import BASES
from curvfed.strategies.config.parse import all_fields, allowed, parse
from curvfed.strategies.config.run_config import SYSTEMS, RunConfig, config_class, flatten
from curvfed.strategies.methods import METHODS, Method
from curvfed.tasks.graphs.models.registry import MODELS
from curvfed.tasks.images.nets import NETS

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
FIELDS = dict(all_fields())
LARGE = 10**9

DATASETS = {
    "auto": (),
    "trees": ("nodes",),
    "Cora": ("nodes",),
    "MUTAG,bzr": ("graphs",),
    "chem": ("graphs",),
    "some/graph.pt": ("nodes", "graphs"),
    "digits": ("images",),
    "CIFAR10": ("images",),
    "no/such/folder": ("graphs", "images"),
    "uniform": ("points",),
    "Olsson": ("points",),
    "some/points.NPZ": ("points",),
}
"""Tasks of data sets; auto is one of the built-in ones, by the method."""

BUILT_IN = ("auto", "trees", "digits", "uniform")
NAMES = {"nodes": MODELS["nodes"], "graphs": MODELS["graphs"], "images": NETS, "points": ()}
DEALT = {
    "nodes": ("metis", "random"),
    "graphs": ("metis", "random"),
    "images": ("dirichlet", "iid", "shards"),
    "points": ("stratified", "iid", "dirichlet"),
}
SIZES = {"nodes": (0.2, 0.4), "graphs": (0.2, 0.4), "images": (0.75, 0.25), "points": (0, 0.15)}


def choices(key: str) -> list[Any]:
    """The words that a key takes."""
    field = FIELDS[key]
    return [*(["auto"] if field.default is None else []), *get_args(value_type(field))]


TIED = {
    "method": list(METHODS),
    "dataset": list(DATASETS),
    "model": ["auto", *sorted({name for models in NAMES.values() for name in models})],
    "partition": choices("partition"),
    "train-size": ["auto", 0.001, 0.6, 0.75, 0.999],
    "test-size": ["auto", 0.001, 0.4, 0.8],
    "aggregation": choices("aggregation"),
    **{
        f"flower.{name.replace('_', '-')}": ["auto", 1 if name.startswith("num_") else 0.25]
        for name in sorted(set().union(*FLOWER.values()))
    },
    "weights": choices("weights"),
    "fine-tune": choices("fine-tune"),
    "optimizer": choices("optimizer"),
    "optimizer-state": choices("optimizer-state"),
    "gcfl.eps2": [50.0, 100.0, 2000.0],
    "gcfl.eps1": [0.0, 60.0, 1000.0],
    "run-name": ["", "mine", "A1._-", "x" * 128],
    "resume": [False, True],
    "secure-sum": [False, True],
    "secure.fixed-groups": [False],
    "wire-precision": choices("wire-precision"),
    "secure.threshold": ["auto", 2, 7],
    "secure.neighbours": ["auto", 5],
    "spherefed.normalize": [True, False],
    "points.curvature": [-1.0, -4, -0.01],
    "points.classes": ["", "0", "0,2", " 7,0, 2 ,7"],
    "hull.num-classes": ["auto", 2, 3, 10_000],
    "hull.grouping": get_args(FIELDS["hull.grouping"].annotation),
    "hull.svm": get_args(FIELDS["hull.svm"].annotation),
    "hull.c": ["auto", 0.1, 1],
    "hull.classifier": choices("hull.classifier"),
    "embedding-dim": ["auto", 0, 1, 64],
    "hull.radius": [0.5, 0.999, 0.999999],
    "hull.epsilon": [1e-12, 0.01, 20.0],
}
"""Keys that must fit others, with values of theirs."""


def _given(raw: dict[str, Any], key: str) -> Any:
    """The value of a key that takes numbers, 0 where it is left open."""
    found = raw.get(key, "auto")
    return 0 if found == "auto" else found


def _base(raw: dict[str, Any]) -> str:
    given = raw.get("aggregation", "auto")
    return METHODS[raw.get("method", "flatland")].aggregation if given == "auto" else given


def _chosen(raw: dict[str, Any], key: str, method: Method, task: str) -> str:
    """What is given, or where that is open what the method chooses."""
    given = raw.get(key, "auto")
    return (
        method.settings.get(task, {}).get(key.replace("-", "_"), "auto")
        if given == "auto"
        else given
    )


def from_rest(raw: dict[str, Any], method: Method, task: str) -> bool:
    """Whether the clients train by SGD that starts afresh in every round."""
    optimizer, state = (_chosen(raw, key, method, task) for key in ("optimizer", "optimizer-state"))
    has_personal = method.personal or "," in raw.get("dataset", "")  # with ends of its own
    keeps = state == "kept" or (state == "personal" and has_personal)
    return (
        {"images": "sgd"}.get(task, "adamw") if optimizer == "auto" else optimizer
    ) == "sgd" and not keeps


def summable(raw: dict[str, Any], method: Method, task: str) -> bool:
    """Whether the server can do with the sum of what it is sent."""
    linear = ("average", "fedopt", "scaffold", "feddyn", "interpolated", *NEED_ONLY_MEAN)
    return _base(raw) in linear or _base(raw) == method.aggregation in (
        "fednova",
        "noisy-average",
        "one-shot",
    )


def disc_fits(raw: dict[str, Any]) -> bool:
    """Whether what is said of points in the disc and of their hulls can be.

    At 1e-12 there are more than 2^62 bins on any of these discs, at 0.01 on none.
    """
    public = _given(raw, "hull.num-classes")
    kept = {"": 0, "0": 1, "0,2": 2, " 7,0, 2 ,7": 3}[raw.get("points.classes", "")]
    return (
        1 not in (public, kept)
        and (public == kept or not (public and kept))
        and (raw.get("hull.grouping") != "kernighan-lin" or max(public, kept) in (0, 2))
        and not (
            raw.get("hull.svm") == "hard"
            and (_given(raw, "hull.c") or raw.get("hull.classifier") != "svm")
        )
        and raw.get("hull.epsilon") != 1e-12
        and (raw.get("dataset") != "Olsson" or raw.get("points.curvature", -1) == -1)
        and not _given(raw, "train-size")
    )


def fits(raw: dict[str, Any]) -> bool:
    """Whether the tied keys fit together; those that are absent have their defaults."""
    method, dataset = METHODS[raw.get("method", "flatland")], raw.get("dataset", "auto")
    tasks = DATASETS[dataset] or method.tasks[:1]
    possible = method.tasks if dataset in BUILT_IN else tasks  # real nodes may bring others
    common = [task for task in tasks if task in method.tasks]
    if not common:
        return False
    model, sizes = raw.get("model", "auto"), (_given(raw, "train-size"), _given(raw, "test-size"))
    return (
        model in {"auto"}.union(*(NAMES[task] for task in possible))
        and not (method.sparsity and model not in ("auto", "gcn", "gin"))
        and ("images" in possible or raw.get("embedding-dim") != 0)
        and raw.get("partition", "auto") in {"auto"}.union(*(DEALT[task] for task in possible))
        and sum(given or own for given, own in zip(sizes, SIZES[common[0]], strict=True)) <= 1
        and (raw.get("aggregation", "auto") == "auto" or method.aggregation in BASES)
        and not (_base(raw) in ("fednova", "scaffold") and not from_rest(raw, method, common[0]))
        and all(
            key.removeprefix("flower.").replace("-", "_")
            in FLOWER.get(raw.get("aggregation", ""), ())
            for key, given in raw.items()
            if key.startswith("flower.") and given != "auto"
        )
        and (raw.get("fine-tune") != "closed-form" or method.head == "sphere")
        and not (raw.get("fine-tune") in ("all", "head") and method.tunes_own_network)
        and (raw.get("method") != "gcfl" or raw.get("gcfl.eps1", 50) <= raw.get("gcfl.eps2", 100))
        and not (raw.get("resume") and not raw.get("run-name"))
        and (not raw.get("secure-sum") or summable(raw, method, common[0]))
        and (
            raw.get("wire-precision", "float32") == "float32"
            or not (raw.get("secure-sum") or _base(raw) == "one-shot")
        )
        and (
            raw.get("secure-sum")
            or _base(raw) == "one-shot"
            or not (_given(raw, "secure.threshold") or _given(raw, "secure.neighbours"))
        )
        and (common[0] != "points" or disc_fits(raw))
    )


@st.composite
def fitting(draw: st.DrawFn, start: dict[str, Any] | None = None) -> dict[str, Any]:
    """Any of the tied keys, each with a value that fits those before it, and those of `start`."""
    raw: dict[str, Any] = dict(start or {})
    for key, choices in TIED.items():
        if key in raw:
            continue
        options = [{}, *({key: choice} for choice in choices if fits(raw | {key: choice}))]
        raw |= draw(st.sampled_from(options))
    return raw


def value(key: str) -> st.SearchStrategy[Any]:
    """Values that a key takes, whatever the others are: its whole range, as far as it goes without
    end."""
    return _within(key) | st.just("auto") if FIELDS[key].default is None else _within(key)


def _within(key: str) -> st.SearchStrategy[Any]:
    field = FIELDS[key]
    kind = value_type(field)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind is bool:
        return st.booleans()
    patterns = [item.pattern for item in field.metadata if getattr(item, "pattern", None)]
    if patterns:
        return st.from_regex(patterns[0].replace("$", r"\Z"))
    if kind is str:
        # The two that no path can be trusted with, and the one that an address with a password
        # would have.
        return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0~@"))
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
    {}, optional={key: value(key) for key in FIELDS if key not in (*TIED, "extra")}
)


def tables(nested: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in nested.items():
        flat |= (
            {f"{key}.{inner}": entry for inner, entry in item.items()}
            if isinstance(item, dict)
            else {key: item}
        )
    return flat


def refused(raw: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    return str(caught.value)


# --- What is taken
# ----------------------------------------------------------------------------------------------------


def test_defaults_of_pyproject_are_those_of_the_model():
    given_to_flower = tables(tomllib.loads(PYPROJECT.read_text())["tool"]["flwr"]["app"]["config"])
    of_the_model = defaults()
    assert given_to_flower == of_the_model
    assert list(given_to_flower) == list(of_the_model)
    assert set(of_the_model) == set(FIELDS)
    assert [type(item) for item in given_to_flower.values()] == [
        type(item) for item in of_the_model.values()
    ]


@given(FREE, fitting())
def test_parse_keeps_every_value_and_flatten_is_its_inverse(free, tied):
    raw = free | tied
    # which it divides by
    assume(raw.get("aggregation") != "flower:QFedAvg" or raw.get("learning-rate") != 0)
    assume(not raw.get("init-from") or not METHODS[raw.get("method", "flatland")].is_one_shot)
    config = parse(raw)
    flat = flatten(config)
    built_in = {} if raw.get("dataset", "auto") != "auto" else {"dataset": config.dataset}
    given = {key: item for key, item in (raw | built_in).items() if key in flat}
    others = {key for row in METHODS.values() for key in row.keys} - {
        key.partition(".")[0] for key in flat
    }
    assert (
        flat
        == {key: item for key, item in defaults().items() if key.partition(".")[0] not in others}
        | given
    )
    assert parse(flat) == config
    assert hash(parse(flat)) == hash(config)


@pytest.mark.parametrize("start", [{}, {"method": "hull"}, {"secure-sum": True}])
@settings(max_examples=120)
@given(
    st.data(),
    st.sampled_from([{key: choice} for key, choices in TIED.items() for choice in choices]),
)
def test_what_fits_together_is_taken_and_nothing_else(start, data, change):
    raw = data.draw(fitting(start)) | change
    if fits(raw):
        parse(raw)
    else:
        assert "allowed" in refused(raw) or "needs" in refused(raw)


@pytest.mark.parametrize(
    "raw",
    [
        {"model": "gin"},
        {"method": "local", "model": "cnn"},
        {"method": "fedavg", "partition": "metis", "model": "vgg13"},
    ],
)
def test_real_nodes_may_bring_what_no_data_set_names(raw):
    """And what is written of their run is taken again: resumed runs and predictions read it."""
    assert parse(flatten(parse(raw))) == parse(raw)


def test_whole_numbers_will_do_for_numbers():
    rate = flatten(parse({"learning-rate": 1}))["learning-rate"]
    assert (rate, type(rate)) == (1.0, float)


def test_all_values_that_are_wrong_are_named():
    assert (
        refused({"seed": -4, "num-rounds": "abc", "learning-rate": float("nan"), "moon.mu": -1})
        == "seed = -4: allowed is a whole number >= 0 and < 2147483648\n"
        "num-rounds = 'abc': allowed is a whole number >= 0 and <= 1000000\n"
        'learning-rate = nan: allowed is "auto" or a number >= 0\n'
        "moon.mu = -1: allowed is a number >= 0"
    )


def test_configuration_is_frozen_and_hashable():
    config = parse({})
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 1
    with pytest.raises(ValidationError, match="frozen"):
        config.table("flatland").gate = False
    assert {config: 1}[parse(defaults())] == 1
    assert len({config, parse({"seed": 1}), parse({"flatland.gate": False})}) == 3


def test_folders_are_below_the_users_home_unless_told(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse({}).results_path == tmp_path / "curvfed" / "results"
    assert parse({}).data_path == tmp_path / "curvfed" / "data"
    assert parse({"results-dir": "~/r", "data-dir": "/d"}).results_path == tmp_path / "r"
    assert parse({"data-dir": "/d"}).data_path == Path("/d")


# --- What is refused: one key
# -----------------------------------------------------------------------------------------


WRONG_TYPE = {
    bool: [1, "true", 0.0],
    int: ["3", 1.5, 1.0, True, ""],
    float: ["0.1", True, b"1"],
    str: [3, True, 0.5],
}


@pytest.mark.parametrize("key", FIELDS)
def test_wrong_type_names_key_value_and_what_is_allowed(key):
    for wrong in WRONG_TYPE.get(value_type(FIELDS[key]), [7, 0.5, "nothing of the sort", b"auto"]):
        # where the default is a text, numbers come as texts
        if FIELDS[key].default is None and wrong in ("3", "0.1"):
            continue
        message = refused({key: wrong})
        assert message == f"{key} = {wrong!r}: allowed is {allowed(FIELDS[key])}"


@pytest.mark.parametrize(
    ("key", "wrong", "words"),
    [
        ("seed", -1, "a whole number >= 0 and < 2147483648"),
        ("seed", 2**31, "a whole number >= 0 and < 2147483648"),
        ("num-rounds", -1, "a whole number >= 0 and <= 1000000"),
        ("num-rounds", 10**30, "a whole number >= 0 and <= 1000000"),
        ("local-epochs", 0, '"auto" or a whole number >= 1 and <= 10000'),
        ("optimizer", "lamb", 'one of "auto", "adamw", "adam", "sgd"'),
        ("learning-rate", -1e-9, '"auto" or a number >= 0'),
        ("learning-rate", math.inf, '"auto" or a number >= 0'),
        ("learning-rate", math.nan, '"auto" or a number >= 0'),
        ("momentum", 1.0, "a number >= 0 and < 1"),
        ("decay", 0.0, "a number > 0 and <= 1"),
        ("weight-decay", -1e-9, "a number >= 0"),
        ("dropout", 1.0, "a number >= 0 and < 1"),
        ("embedding-dim", -1, '"auto" or a whole number >= 0 and <= 65536'),
        ("fraction-train", 0.0, "a number > 0 and <= 1"),
        (
            "partition",
            "louvain",
            'one of "auto", "metis", "random", "dirichlet", "iid", "shards", "stratified"',
        ),
        ("alpha", 0.0, "a number > 0"),
        ("alpha", -0.5, "a number > 0"),
        ("shards", 0, "a whole number >= 1 and <= 10000"),
        ("min-client-size", -1, "a whole number >= 0"),
        ("train-size", 0, '"auto" or a number > 0 and < 1'),
        ("test-size", 1, '"auto" or a number >= 0 and < 1'),
        ("fine-tune-epochs", -1, '"auto" or a whole number >= 0 and <= 10000'),
        ("aggregation", "clusters", allowed(FIELDS["aggregation"])),
        ("flower.eta", 0, '"auto" or a number > 0'),
        ("flower.eta", True, '"auto" or a number > 0'),
        ("flower.eta", math.nan, '"auto" or a number > 0'),
        ("flower.eta", "fast", '"auto" or a number > 0'),
        ("flower.beta-1", 1, '"auto" or a number >= 0 and < 1'),
        ("flower.beta", 0.5, '"auto" or a number >= 0 and < 0.5'),
        ("flower.num-malicious-nodes", 0.5, '"auto" or a whole number >= 0 and <= 1000000'),
        ("round-timeout", 0, "a number > 0"),
        ("flatland.proximal", math.nan, "a number >= 0"),
        (
            "flatland.curvature-init",
            "ricci",
            'one of "forman", "ollivier", "literal", "mlp", "constant"',
        ),
        ("fedprox.mu", -0.1, "a number >= 0"),
        ("images.channels", 2, 'one of "auto", 1, 3'),
        ("hyperfed.slope", 1, "a number > 0 and <= 0.99999"),
        ("hyperfed.slope", 0.0, "a number > 0 and <= 0.99999"),
        ("hyperfed.slope", -0.9, "a number > 0 and <= 0.99999"),
        ("hyperfed.slope", math.nan, "a number > 0 and <= 0.99999"),
        ("hyperfed.margin", -1e-9, "a number >= 0"),
        ("hyperfed.margin", math.inf, "a number >= 0"),
        ("hyperfed.radius", -0.2, "a number >= 0"),
        ("spherefed.temperature", 0.0, "a number > 0"),
        ("spherefed.ridge", -1e-9, "a number >= 0"),
        ("fedopt.beta2", 1.0, "a number >= 0 and < 1"),
        ("fedrep.head-epochs", 0, "a whole number >= 1 and <= 10000"),
        ("points.curvature", 0, "a number < 0"),
        ("points.curvature", 1.0, "a number < 0"),
        ("points.curvature", -math.inf, "a number < 0"),
        ("points.curvature", math.nan, "a number < 0"),
        ("points.split-seed", -1, '"auto" or a whole number >= 0 and < 2147483648'),
        ("points.lacking", -1, "a whole number >= 0"),
        ("points.num", 1, "a whole number >= 2 and <= 100000000"),
        ("points.sample-radius", 1.0, "a number > 0 and < 1"),
        ("points.reference", 1, "a number >= 0 and < 1"),
        ("points.margin", -0.1, "a number >= 0"),
        ("hull.epsilon", 0, "a number > 0"),
        ("hull.epsilon", -0.01, "a number > 0"),
        ("hull.epsilon", math.inf, "a number > 0"),
        ("hull.radius", 1.0, "a number > 0 and <= 0.9999999"),
        ("hull.radius", math.nan, "a number > 0 and <= 0.9999999"),
        ("hull.cap", 0, "a whole number >= 1 and <= 100000"),
        ("hull.h", 1, "a whole number >= 2 and <= 16"),
        ("hull.num-classes", 1, '"auto" or a whole number >= 2 and <= 10000'),
        ("hull.code", "b3", 'one of "binary", "bose-chowla"'),
        ("hull.c", 0.0, '"auto" or a number > 0 and <= 1000000000000.0'),
        ("secure.threshold", 1, '"auto" or a whole number >= 2'),
        ("secure.neighbours", 0, '"auto" or a whole number >= 1'),
        ("secure.clip", 0.0, "a number >= 0.001 and <= 1000000.0"),
        ("secure.clip", 1e7, "a number >= 0.001 and <= 1000000.0"),
    ],
)
def test_out_of_range_names_key_value_and_range(key, wrong, words):
    assert refused({key: wrong}) == f"{key} = {wrong!r}: allowed is {words}"


NAMES_OF_RUNS = ["../elsewhere", "a/b", ".hidden", "a b", "a\n", "x" * 129, "ü"]
DEVICES = ["gpu", "cuda:", "cuda:0\n", "CPU", "mps"]
SINKS = ["tensorbord", "tensorboard,", "mlflow, tensorboard", "MLflow"]
FORMS = {
    "run-name": NAMES_OF_RUNS,
    "device": DEVICES,
    "sinks": SINKS,
}


@pytest.mark.parametrize(
    ("key", "wrong"), [(key, wrong) for key, wrongs in FORMS.items() for wrong in wrongs]
)
def test_names_of_runs_and_devices_and_lists_have_a_form(key, wrong):
    assert refused({key: wrong}) == f"{key} = {wrong!r}: allowed is {allowed(FIELDS[key])}"


def test_a_form_is_told_in_words():
    forms = {
        key: field
        for key, field in FIELDS.items()
        if any(getattr(item, "pattern", "") for item in field.metadata)
    }
    assert forms.keys() == {*FORMS, "mlflow.experiment"}
    for field in forms.values():
        assert allowed(field) != "a string"
        assert not set("^$\\|[]{}*?") & set(allowed(field))


@pytest.mark.parametrize("key", ["dataset", "data-dir", "results-dir", "test-data"])
@pytest.mark.parametrize(
    "path", ["a\0b.pt", "~nobody-of-this-name/x.pt", "x" * 5000 + ".pt", "loop/x.pt", "loop"]
)
def test_what_can_be_no_path_is_refused(key, path, tmp_path, monkeypatch):
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    told = refused({key: path})
    assert told.startswith(f"{key} = {path[:80]!r}"[:-1])
    assert "that can exist (" in told
    assert len(told) < 300


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("num_rounds", "num-rounds"),
        ("learning-rat", "learning-rate"),
        ("methd", "method"),
        ("flatland.gates", "flatland.gate"),
        ("fedprox.nu", "fedprox.mu"),
        ("embeding-dim", "embedding-dim"),
        ("hyperfed.margins", "hyperfed.margin"),
        ("spherefed.normalise", "spherefed.normalize"),
        ("hull.eps", "hull.epsilon"),
        ("points.curvatur", "points.curvature"),
        ("secure.treshold", "secure.threshold"),
        ("secure-sums", "secure-sum"),
    ],
)
def test_unknown_key_names_the_nearest(key, nearest):
    assert refused({key: 1}) == f'unknown key "{key}"; did you mean "{nearest}"?'


def test_unknown_key_without_a_near_one_names_the_nearest_five_and_the_page_with_all():
    message = refused({"zzzz": 1})
    assert message.startswith('unknown key "zzzz". The nearest are ')
    assert message.endswith("; docs/configuration.md lists all")
    assert message.count(",") == 4
    # a table is no key
    assert refused({"flatland": {"gate": False}}).startswith('unknown key "flatland"')


@pytest.mark.parametrize("key", FIELDS)
def test_every_key_says_what_it_means_and_takes(key):
    field = FIELDS[key]
    assert field.description is not None
    assert len(field.description.split()) >= 2
    assert allowed(field).split()[0] in ("a", "one", "true", '"auto"')


# --- What is refused: keys together
# -----------------------------------------------------------------------------------


def test_unknown_method_names_the_nearest_five_and_what_lists_all():
    message = refused({"method": "flatlands"})
    assert message.startswith(
        'method = "flatlands"; did you mean "flatland"? The nearest are flatland, flatland-shared, '
    )
    assert sum(f" {method}," in message for method in METHODS) <= 5
    assert "; `curvfed methods` lists all" in message
    assert refused({"method": "?"}).startswith('method = "?". The nearest are ')


@pytest.mark.parametrize(
    ("dataset", "nearest"),
    [
        ("coral", "cora"),
        ("minst", "mnist"),
        ("fashion-mnits", "fashion-mnist"),
        ("olson", "olsson"),
        ("unifrom", "uniform"),
    ],
)
def test_unknown_data_set_names_the_nearest(dataset, nearest):
    message = refused({"dataset": dataset})
    assert message.startswith(
        f'dataset = "{dataset}": no such data set; did you mean "{nearest}"? The nearest are '
    )
    assert "; `curvfed datasets` lists all" in message


@pytest.mark.parametrize("name", ["points.txt", "graph.gml", "./table.ods"])
def test_a_file_of_another_kind_says_which_endings_are_read(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).touch()
    message = refused({"dataset": name})
    ending = Path(name).suffix
    assert message.startswith(
        f'dataset = "{name}": no file that ends in "{ending}" is read; allowed is a .pt file of'
        " graphs"
    )
    assert ".npz, .csv, .tsv, .h5ad" in message
    assert message.endswith(
        "because it has a /"
        if "/" in name
        else f"because it ends in {ending} and is no data set's name"
    )


@pytest.mark.parametrize(
    ("dataset", "what", "rule"),
    [
        ("own/none", "folder", "a path because it has a /"),
        ("own/none.csv", "file", "a path because it has a /"),
        ("none.csv", "file", "a file because it ends in .csv"),
        ("none.PT", "file", "a file because it ends in .PT"),
    ],
)
def test_an_absent_path_says_where_it_was_looked_up_and_why(dataset, what, rule, tmp_path):
    with pytest.raises(ConfigError) as caught:
        check_place({"dataset": dataset, "data-dir": str(tmp_path)})
    message = str(caught.value)
    assert f"no {what} {dataset}, nor {tmp_path / dataset}; it is taken as {rule}" in message
    assert "looked up in the working folder, then in data-dir" in message


def test_an_unknown_name_says_why_it_is_taken_as_a_name():
    assert "taken as a data set's name because it has no /" in refused({"dataset": "coral"})


def test_a_table_for_a_method_on_graphs_says_how_files_are_read():
    assert refused({"dataset": "edges.tsv", "method": "flatland"}).endswith(
        ".pt as graphs, others as points"
    )
    assert "read by its ending" not in refused({"dataset": "digits", "method": "flatland"})


@pytest.mark.parametrize(
    ("dataset", "method", "words"),
    [
        ("MUTAG", "flatland-euclidean", 'graphs, method = "flatland-euclidean" works on nodes'),
        ("digits", "flatland", 'images, method = "flatland" works on nodes and graphs'),
        ("mine.pt", "hyperfed", 'nodes or graphs, method = "hyperfed" works on images'),
        ("digits", "hull", 'images, method = "hull" works on points'),
        ("mine.CSV", "fedper", 'points, method = "fedper" works on nodes and graphs and images'),
    ],
)
def test_method_and_data_set_must_fit(dataset, method, words):
    message = refused({"dataset": dataset, "method": method})
    assert message.startswith(
        f'dataset = "{dataset}" is a data set of {words}; allowed is a data set of these or another'
        " method"
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            {"dataset": "cora", "model": "gin"},
            "data sets of nodes is one of auto, gated, gcn, lorentz, split",
        ),
        (
            {"dataset": "MUTAG", "model": "split"},
            "data sets of graphs is one of auto, gcn, gin, lorentz",
        ),
        (
            {"dataset": "cora", "partition": "iid"},
            "data sets of nodes is one of auto, metis, random",
        ),
        (
            {"dataset": "mnist", "method": "fedavg", "partition": "metis"},
            "data sets of images is one of auto, dirichlet, iid, shards",
        ),
        (
            {"method": "hyperfed", "partition": "random"},
            "data sets of images is one of auto, dirichlet, iid, shards",
        ),
        (
            {"method": "hull", "partition": "metis"},
            "data sets of points is one of auto, dirichlet, iid, stratified",
        ),
        ({"method": "hull", "model": "gcn"}, "data sets of points is one of auto"),
        (
            {"method": "hull", "dataset": "a.h5ad", "model": "cnn"},
            "data sets of points is one of auto",
        ),
        (
            {"method": "hyperfed", "partition": "stratified"},
            "data sets of images is one of auto, dirichlet, iid, shards",
        ),
        ({"method": "fed-pub", "model": "lorentz"}, 'method = "fed-pub" is one of auto, gcn, gin'),
    ],
)
def test_model_and_partition_must_fit_the_data_set_and_the_method(raw, words):
    key, wrong = list(raw.items())[-1]
    where = "for" if "data sets" in words else "with"
    if key == "model" and ("nodes" in words or "graphs" in words):
        words += (
            ', or "package.module:factory"; a package that brings it must be installed wherever'
            " server and clients run"
        )
    assert refused(raw) == f'{key} = "{wrong}": allowed {where} {words}'


@pytest.mark.parametrize("method", METHODS)
def test_one_model_for_all_can_be_made_by_any_of_the_bases(method):
    for base in BASES:
        raw = {
            "method": method,
            "aggregation": base,
            "optimizer": "sgd",
            "optimizer-state": "fresh",
        }
        if METHODS[method].aggregation in BASES:
            assert parse(raw).aggregation == base
        else:
            assert (
                refused(raw)
                == f'aggregation = "{base}": allowed with method = "{method}" is auto, its own'
            )
    assert {METHODS[name].aggregation in BASES for name in ("fed-pub", "gcfl", "hull")} == {False}


def test_flowers_strategies_are_told_by_name():
    assert tuple(FLOWER) == get_args(FlowerName)
    assert allowed(FIELDS["aggregation"]).endswith(", ".join(f'"{name}"' for name in FLOWER))
    assert parse(
        {"method": "fedavg", "aggregation": "flower:FedYogi", "secure-sum": True}
    ).secure_sum


def test_a_key_that_the_strategy_does_not_have_is_refused_with_those_it_has():
    raw = {"method": "fedavg", "aggregation": "flower:MultiKrum", "flower.eta": 0.5}
    assert (
        refused(raw) == 'flower.eta = 0.5: allowed with aggregation = "flower:MultiKrum" is'
        " flower.num-malicious-nodes, flower.num-nodes-to-select"
    )
    none = 'allowed with aggregation = "{}" is no key of this table'
    assert refused(raw | {"aggregation": "flower:FedMedian"}) == "flower.eta = 0.5: " + none.format(
        "flower:FedMedian"
    )
    assert refused({"flower.q": 1}) == "flower.q = 1.0: " + none.format("auto")


def test_numbers_that_commands_pass_on_as_texts_are_numbers():
    raw = {"method": "fedavg", "aggregation": "flower:MultiKrum"}
    keys = parse(
        raw | {"flower.num-malicious-nodes": "2", "flower.num-nodes-to-select": "auto"}
    ).flower
    assert (keys.num_malicious_nodes, keys.num_nodes_to_select) == (2, None)
    assert (
        parse(
            {"method": "fedavg", "aggregation": "flower:FedAdam", "flower.eta": "1e-2"}
        ).flower.eta
        == 0.01
    )


def test_a_closed_form_needs_a_classifier_on_the_sphere():
    assert parse({"method": "spherefed", "fine-tune": "closed-form"}).fine_tune == "closed-form"
    assert (
        refused({"method": "hyperfed", "fine-tune": "closed-form"})
        == 'fine-tune = "closed-form": allowed with a classifier on the sphere, such as'
        " spherefed's; "
        'method = "hyperfed" has none'
    )


@pytest.mark.parametrize("chosen", ["all", "head"])
def test_fine_tuning_that_is_a_network_of_its_own_trains_nothing_else(chosen):
    assert parse({"method": "adafgl", "fine-tune": "trained"}).fine_tune == "trained"
    assert (
        refused({"method": "adafgl", "fine-tune": chosen})
        == f'fine-tune = "{chosen}": allowed with method = "adafgl" is auto or trained, its own'
        " network"
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_sum_is_enough_for_averages_and_hulls(method):
    linear = (
        "average",
        "fedopt",
        "scaffold",
        "feddyn",
        "interpolated",
        "fednova",
        "noisy-average",
        "one-shot",
    )
    raw = {"method": method, "secure-sum": True}
    if METHODS[method].aggregation in linear:
        assert parse(raw).secure_sum
    else:
        assert refused(raw).startswith("secure-sum = true")


def test_a_base_that_needs_more_than_a_sum_is_named():
    for base in ("consistent", "fednova", "flower:FedMedian", "flower:Krum", "flower:QFedAvg"):
        raw = {"method": "fedavg", "dataset": "digits", "aggregation": base, "secure-sum": True}
        assert (
            refused(raw | {"optimizer": "sgd", "optimizer-state": "fresh"})
            == f'secure-sum = true with method = "fedavg" and aggregation = "{base}": allowed is'
            " one whose equations are linear in the updates, average or fedopt or scaffold or"
            " feddyn or interpolated or flower:FedAdagrad or flower:FedAdam or flower:FedAvgM"
            " or flower:FedYogi; this one looks at each client's parameters"
        )
    assert parse({"method": "hyperfed", "aggregation": "average", "secure-sum": True}).secure_sum
    assert refused({"method": "hyperfed", "secure-sum": True}).startswith(
        'secure-sum = true with method = "hyperfed" and'
    )


FROM_REST = (
    'optimizer = "{}" and optimizer-state = "{}" with method = "{}": allowed with fednova is sgd'
    ' that starts afresh every round (optimizer="sgd" optimizer-state="fresh")'
)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            {"resume": True},
            'resume = true needs run-name, the name of the run to go on with; it is ""',
        ),
        (
            {"optimizer-state": "kept", "method": "fednova"},
            FROM_REST.format("sgd", "kept", "fednova"),
        ),
        ({"aggregation": "fednova"}, FROM_REST.format("adamw", "kept", "flatland")),
        (
            {"method": "fedavg", "aggregation": "flower:QFedAvg", "learning-rate": 0.0},
            (
                'learning-rate = 0: allowed with aggregation = "flower:QFedAvg", which divides by'
                " it, is a number > 0, or flower.client-learning-rate beside it"
            ),
        ),
        (
            {"method": "fedrep", "aggregation": "fednova", "optimizer-state": "personal"},
            FROM_REST.format("sgd", "personal", "fedrep"),
        ),
        (
            {"method": "gcfl", "gcfl.eps1": 200},
            "gcfl.eps1 = 200.0 and gcfl.eps2 = 100.0: allowed is eps1 <= eps2",
        ),
        (
            {"train-size": 0.7, "test-size": 0.4},
            "train-size = 0.7 and test-size = 0.4: allowed is a sum of at most 1",
        ),
        (
            {"train-size": 0.7},
            "train-size = 0.7 and test-size = 0.4: allowed is a sum of at most 1",
        ),
        (
            {"test-size": 0.3, "method": "ccvr"},
            "train-size = 0.75 and test-size = 0.3: allowed is a sum of at most 1",
        ),
        (
            {"method": "fedavg", "secure.threshold": 3},
            "secure.threshold = 3: allowed with secure-sum = true, without which nothing is masked",
        ),
        (
            {"secure.neighbours": 8},
            (
                "secure.neighbours = 8: allowed with secure-sum = true, without which nothing is"
                " masked"
            ),
        ),
        (
            {"method": "hull", "train-size": 0.5},
            (
                "train-size = 0.5: allowed for data sets of points is auto, for what is not in the"
                " share test-size is trained on"
            ),
        ),
        (
            {"method": "hull", "dataset": "olsson", "points.curvature": -2},
            "points.curvature is -2.0; allowed: -1.0 for olsson",
        ),
        (
            {"method": "hull", "points.classes": "3,3"},
            'points.classes = "3,3": allowed are 2 classes or more',
        ),
        (
            {"method": "hull", "hull.grouping": "kernighan-lin", "hull.num-classes": 3},
            'hull.grouping = "kernighan-lin" and hull.num-classes = 3: allowed are 2 classes',
        ),
        (
            {"method": "hull", "hull.grouping": "kernighan-lin", "points.classes": "0,2,3"},
            'hull.grouping = "kernighan-lin" and points.classes = "0,2,3": allowed are 2 classes',
        ),
        (
            {"method": "hull", "points.classes": "0,2", "hull.num-classes": 8},
            (
                'hull.num-classes = 8 and points.classes = "0,2": allowed are auto and the number'
                " of these, 2"
            ),
        ),
        (
            {"method": "hull", "hull.svm": "hard", "hull.c": 0.1},
            (
                'hull.svm = "hard" and hull.c = 0.1: allowed is hull.c = auto, for a hard margin'
                " has no cost"
            ),
        ),
        (
            {"method": "hull", "hull.svm": "hard", "hull.classifier": "logistic"},
            (
                'hull.svm = "hard" and hull.classifier = "logistic": allowed is hull.classifier ='
                ' "svm"'
            ),
        ),
    ],
)
def test_keys_must_fit_each_other(raw, words):
    """And for a size that is absent what the task takes in its place."""
    assert refused(raw) == words


def test_bins_that_cannot_be_are_refused_before_anything_is_sent():
    message = refused({"method": "hull", "hull.epsilon": 1e-12})
    assert message.startswith(
        "hull.epsilon = 1e-12: not allowed with hull.radius = 0.999 and points.curvature = -1.0: "
    )
    assert parse({"method": "fedavg", "hull.epsilon": 1e-12})  # which has no use for it


# --- The tables of a run
# ----------------------------------------------------------------------------------------------


def test_a_run_has_the_tables_of_the_keys_that_its_row_names():
    """As a method of another package that stands on FedProx's term."""
    kind = config_class(replace(METHODS["fedavg"], proximal="fedprox.mu"), "auto")
    assert kind()["fedprox.mu"] == defaults()["fedprox.mu"]
    assert "moon" not in kind.model_fields
    assert "fedprox" not in config_class(METHODS["fedavg"], "auto").model_fields


def test_the_tables_that_are_no_methods_are_those_of_every_run():
    assert {
        name for name, field in RunConfig.model_fields.items() if isinstance(field.default, Table)
    } == set(SHARED)


GIVEN = {"flatland.gate": False, "hyperfed.slope": 0.5, "spherefed.normalize": False, "hull.c": 2.0}


def test_the_tables_of_the_systems_are_there_whether_or_not_their_keys_are_given():
    """Without them the files of these methods need not be imported."""
    plain, some = parse({"method": "local"}), parse({"method": "local"} | GIVEN)
    assert set(SYSTEMS) == {key.partition(".")[0] for key in GIVEN}
    assert type(some).model_fields.keys() - type(plain).model_fields.keys() == set(SYSTEMS)
    assert {key: plain[key] for key in GIVEN} == {key: defaults()[key] for key in GIVEN}
    assert flatten(some) == flatten(plain) | GIVEN
    for table in SYSTEMS:
        assert plain.table(table) == type(some.table(table))()

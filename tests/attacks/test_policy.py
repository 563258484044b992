"""What an honest server got by ordinary configurations, and what nodes' policies say now."""

import json
import stat
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from absent_extensions import needs_tables
from app_runs import Recorder, all_bytes, asked, real_nodes, run
from errors import refuses
from graph_fixtures import user_fields
from hull_nodes import QUICK, arrays_of, blobs, hull_run, nodes_of, nodes_with_a_single_cell
from image_fixtures import write_classes
from policies import with_policy

from curvfed.client_app.app import OF_ROUNDS, check_phase
from curvfed.client_app.clients_in_memory import get_client
from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node, is_real
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.inprocess import simulated_nodes
from curvfed.server_app.run import RoundError
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import MESSAGE_TYPES

pytestmark = pytest.mark.usefixtures("own_home")

CAUTIOUS = {"secure-sum": True, "share-statistics": False, "hull-max-share": 0.2}
PATIENTS = ("Smith", "Jones", "Meyer")


def patients(seed: int) -> str:
    """Cells of two kinds, with the patient that each is from."""
    rng = np.random.default_rng(seed)
    rows = ["x,y,label,patient"]
    for number in range(60):
        x, y = rng.uniform(-0.1, 0.1, 2) + (0.5 if number % 2 else -0.5)
        rows.append(f"{x:.6f},{y:.6f},kind {number % 2},{PATIENTS[number % 3]}")
    return "\n".join(rows)


def clinics(folder: Path) -> list[dict[str, Any]]:
    """Real nodes whose configuration allows as little as it could say."""
    return nodes_of(folder, [patients(seed) for seed in range(3)], **CAUTIOUS)


def written(folder: Path) -> bytes:
    """What is in the files of a run but the configuration that it was given."""
    files = (
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "config.toml"
    )
    return b"".join(path.read_bytes() for path in files)


def refusal(folder: Path, nodes: list[dict[str, Any]], **settings: Any) -> str:
    """The one text by which every node refuses; nothing else is in the run directory."""
    recorder = Recorder()
    with pytest.raises(FederationError):
        hull_run(folder, nodes=nodes, intercept=recorder, **settings)
    (said,) = {str(reply["header"]["error"]) for reply in recorder.replies()}
    sent = written(folder / "run") + b"".join(all_bytes(reply) for reply in recorder.replies())
    assert not any(name.encode() in sent for name in PATIENTS)
    return said


def test_another_column_is_no_label(tmp_path):
    """Got: the names of all patients, as class names, although the nodes sent no hulls."""
    said = refusal(
        tmp_path, clinics(tmp_path / "nodes"), points__label_key="patient", hull__dry_run=True
    )
    assert 'points.label-key = "patient" is not what its policy.toml says in [data]' in said
    assert 'the line label-key = "patient" there would allow it' in said


def wards(folder: Path) -> list[dict[str, Any]]:
    """Real nodes with images of two kinds, in a folder for each patient."""
    nodes = []
    for site in range(3):
        data = folder / f"images{site}"
        for kind, patients in {"tumour": PATIENTS[:2], "healthy": PATIENTS[2:]}.items():
            write_classes(data / kind, dict.fromkeys(patients, 12), seed=site)
        place = {"data-path": str(data), "state-path": str(folder / f"state{site}")}
        nodes.append({"partition-id": site} | place | CAUTIOUS)
    return nodes


def test_folders_of_another_level_are_no_classes(tmp_path):
    """Got: the names of all patients, as class names, and sums for each of them."""
    nodes = wards(tmp_path / "nodes")
    keys = {"method": "fedavg", "dataset": "own", "secure_sum": True, "num_rounds": 0}
    recorder = Recorder()
    words = r"images.classes-at = 2 is not what its policy.toml says in \[data\]; the line classes-at = 2"
    with pytest.raises(FederationError, match=words):
        run(tmp_path, nodes=nodes, intercept=recorder, images__classes_at=2, **keys)
    sent = written(tmp_path / "run") + b"".join(all_bytes(reply) for reply in recorder.replies())
    assert not any(name.encode() in sent for name in PATIENTS)
    done = run(tmp_path, "kinds", nodes=nodes, **keys)
    assert done.described["facts"]["class_names"] == ["healthy", "tumour"]
    allowed = with_policy(tmp_path, nodes, "[data]\nclasses-at = 2\n")
    for level in ({}, {"images__classes_at": 2}):
        done = run(tmp_path, f"allowed{len(level)}", nodes=allowed, seed=1, **keys | level)
        assert done.described["facts"]["class_names"] == sorted(PATIENTS)


def test_chosen_classes_are_not_drawn_from_the_data(tmp_path):
    """Got: by points.classes a hull of each of two chosen patients, of that patient's cells."""
    chosen = {
        "points__label_key": "patient",
        "points__classes": "Smith,Jones",
        "hull__num_classes": 2,
    }
    assert "points.classes" in refusal(
        tmp_path / "a", clinics(tmp_path / "nodes"), points__classes="kind 0,kind 1"
    )
    assert "points.label-key" in refusal(tmp_path / "b", clinics(tmp_path / "nodes"), **chosen)


@pytest.mark.parametrize("key", ["embedding-key", "curvature"])
def test_other_coordinates_are_not_read(key, tmp_path):
    """Got: hulls of any other pair of columns of obsm, and how the points lie at any curvature."""
    requested = "X_genome" if key == "embedding-key" else -4.0
    name = f"points__{key.replace('-', '_')}"
    said = refusal(tmp_path, clinics(tmp_path / "nodes"), **{name: requested})
    assert f"points.{key} = {json.dumps(requested)} is not what its policy.toml says" in said


@needs_tables
def test_what_the_policy_says_is_read_whatever_the_run_says(tmp_path):
    """A run that names no column gets the node's, as does one that names it; a third does not."""
    text = (
        '[data]\nlabel-key = "label"\nclasses = ["kind 0", "kind 1"]\ntest-size ='
        " 0.3\n[leaves]\nhull-max-share = 1.0\n"
    )
    open_nodes = nodes_of(
        tmp_path / "nodes", [patients(seed).replace("label", "kind") for seed in range(3)]
    )
    nodes = with_policy(tmp_path, open_nodes, text.replace('"label"', '"kind"'))
    result = hull_run(tmp_path, nodes=nodes)
    assert result.described["clients"][0]["class_names"] == ["kind 0", "kind 1"]
    configured = hull_run(tmp_path, "named", nodes=nodes, points__label_key="kind", test_size=0.3)
    assert arrays_of(configured)["bins"].tolist() == arrays_of(result)["bins"].tolist()
    assert "points.label-key" in refusal(tmp_path / "b", nodes, points__label_key="patient")
    assert "points.split-seed = 4" in refusal(tmp_path / "c", nodes, points__split_seed=4)
    assert "test-size = 0.2: this node splits" in refusal(tmp_path / "d", nodes, test_size=0.2)


@pytest.mark.parametrize(
    "has_state", [True, False], ids=["with a state-path", "by Flower's command alone"]
)
@needs_tables
def test_a_node_with_a_share_reads_no_path(has_state, tmp_path):
    """Got: any file that the SuperNode's user may read, as a data set."""
    (tmp_path / "secret.csv").write_text(patients(0))
    nodes: list[dict[str, Any]] = [
        {"partition-id": number, "num-partitions": 3} for number in range(3)
    ]
    if has_state:
        nodes = [node | {"state-path": str(tmp_path / "state")} for node in nodes]
    for text in (str(tmp_path / "secret.csv"), "secret.csv"):
        places = {"data_dir": str(tmp_path)} if text == "secret.csv" else {}
        said = refusal(tmp_path / Path(text).stem / str(len(text)), nodes, dataset=text, **places)
        assert "public data set" in said
        assert "data-path" in said


def test_a_public_data_set_is_one_that_the_node_knows_from_where_it_has_it(tmp_path):
    nodes: list[dict[str, Any]] = [
        {"partition-id": number, "num-partitions": 3} for number in range(3)
    ]
    assert 'data-dir = "' in refusal(tmp_path / "a", nodes, data_dir=str(tmp_path))
    chosen = with_policy(tmp_path, nodes, '[data]\npublic = ["olsson"]\n')
    assert 'does not allow dataset = "uniform": [data] public' in refusal(tmp_path / "b", chosen)
    chosen = with_policy(
        tmp_path, nodes, f'[data]\npublic = ["UNIFORM"]\n[runs.keys]\n"data-dir" = ["{tmp_path}"]\n'
    )
    result = hull_run(tmp_path / "c", nodes=chosen, data_dir=str(tmp_path))
    assert result.summary["status"] == "completed"


LIMITS = {
    '[runs]\nmethods = ["fedavg"]': 'does not allow method = "hull": [runs] methods = ["fedavg"]',
    '[runs]\nkeys = { "hull.epsilon" = { min = 0.5 } }': (
        'does not allow hull.epsilon = 0.01: [runs] keys, "hull.epsilon"'
    ),
    '[runs.keys]\n"hull.code" = ["unary"]': (
        'does not allow hull.code = "binary": [runs] keys, "hull.code" = ["unary"]'
    ),
}


@pytest.mark.parametrize("text", LIMITS)
def test_a_run_is_what_the_node_takes_part_in(text, tmp_path):
    nodes = with_policy(tmp_path, clinics(tmp_path / "nodes"), text)
    assert LIMITS[text] in refusal(tmp_path, nodes)


def test_a_model_of_another_package_is_imported_only_if_it_is_listed(tmp_path):
    """Got: any name of any package that is installed at the node, imported and called."""
    nodes = real_nodes(tmp_path / "nodes", [user_fields(40, seed=number) for number in range(3)])
    config = parse({"dataset": "trees", "method": "fedavg", "model": "os:getcwd"})
    with pytest.raises(
        ConfigError, match=r'does not allow model = "os:getcwd": .* without a line "model"'
    ):
        Policy().check_run(config, owns_data=True)
    (node,) = with_policy(tmp_path, nodes[:1], '[runs.keys]\nmodel = ["auto", "os:getcwd"]\n')
    policy = Node.read(node).rules
    assert policy.check_run(config, owns_data=True) == config


@pytest.mark.parametrize("line", ["", "hull-min-class-size = 1\n"], ids=["default", "one"])
def test_a_class_of_one_cell_stays_at_home(line, tmp_path):
    """Without a least size the published model has the cell to the bin, as a corner of its class."""
    nodes, cell = nodes_with_a_single_cell(tmp_path / "nodes")
    chosen = with_policy(tmp_path, nodes, f"[sums]\nmin-holders = 1\n[leaves]\n{line}")
    result = hull_run(tmp_path, nodes=chosen, hull__classifier="depth")
    distance = np.linalg.norm(result.model["corners"] - cell, axis=1).min()
    assert (distance < 3e-3) == bool(line)


def test_nodes_whose_classes_are_all_small_say_which_line_keeps_them(tmp_path):
    nodes = nodes_of(tmp_path / "nodes", [blobs("02", per_class=4, seed=seed) for seed in range(3)])
    recorder = Recorder()
    with pytest.raises(RoundError, match=r"\[leaves\] hull-min-class-size = 5") as refused:
        run(tmp_path, nodes=nodes, method="hull", intercept=recorder)
    assert "4" not in str(refused.value).partition("hull-min")[2]
    assert not [reply for reply in recorder.replies("hulls") if "arrays" in reply]


def test_too_few_large_classes_are_named(tmp_path):
    rare = blobs("25", per_class=4)
    points = {name: np.concatenate([array, rare[name]]) for name, array in blobs("0").items()}
    nodes = nodes_of(tmp_path / "nodes", [points, points])
    with pytest.raises(
        RoundError, match=r"2 hulls of 1 of 3 classes; needed are 2 .*hull-min-class-size"
    ):
        hull_run(tmp_path, nodes=nodes)


def test_counts_of_a_small_class_stay_at_home(tmp_path):
    """Class counts and the confusion matrix leave only where no class is small."""
    nodes = nodes_of(
        tmp_path / "nodes", [blobs("02", seed=1), blobs("02", per_class=4, test=5, seed=2)]
    )
    result = run(
        tmp_path, nodes=nodes, method="fedavg", dataset="own", share_statistics=True, num_rounds=1
    )
    counted = ["class_counts" in client["statistics"] for client in result.described["clients"]]
    assert counted == [True, False]
    rows = (result.path / "confusion.csv").read_text().splitlines()
    assert {line.partition(",")[0] for line in rows[1:]} == {"1"}


# --- How large a sum is


def test_a_sum_over_few_nodes_is_refused():
    Policy().check_contributors(3)
    with pytest.raises(
        SecureSumError,
        match=r"takes no part in a secure sum over 2 nodes: \[sums\] contributors = 3",
    ):
        Policy().check_contributors(2)


def test_nodes_that_refuse_a_sum_for_one_reason_give_it_once(tmp_path):
    """The remedy is not to start them: they are there."""
    points = [blobs("02", seed=seed) for seed in range(3)]
    nodes = with_policy(
        tmp_path, nodes_of(tmp_path / "nodes", points), "[sums]\ncontributors = 4\n"
    )
    with pytest.raises(RoundError) as caught:
        hull_run(tmp_path, nodes=nodes)
    refused = "this node takes no part in a secure sum over 3 nodes: [sums] contributors = 4"
    said = f"partition 0, partition 1, partition 2: {refused} in its policy; a group is summed once"
    assert said in str(caught.value)
    assert "start all nodes" not in str(caught.value)


# --- Errors, digests, files, phases


def test_errors_about_points_tell_no_count(tmp_path):
    """Got: "10/18/25 of 30 points lie outside" at -4, -8, -20: how far from the centre they lie."""
    parts = [blobs("02", seed=number, radius=0.9) for number in range(3)]
    refusals = []
    for curvature in (-4.0, -8.0, -20.0):
        nodes = nodes_of(tmp_path / "nodes", parts)
        nodes = with_policy(tmp_path, nodes, f"[data]\ncurvature = {curvature}\n")
        refusals.append(refusal(tmp_path / str(-curvature), nodes, points__curvature=curvature))
    assert len(set(refusals)) == 1
    assert refusals[0].startswith(
        "data-path: … of … points lie on or outside the boundary of the disc of curvature …;"
        " allowed is |curvature|·(x² + y²) < …. Is points.curvature that of the embedding? "
    )


def test_a_digest_confirms_no_guess_and_joins_no_two_nodes(tmp_path):
    """Got: the digest that anybody with the same data computes, equal at two nodes."""
    parts = [blobs("02"), blobs("02"), blobs("02", seed=1)]
    nodes = nodes_of(tmp_path / "nodes", parts)
    first = [client["digest"] for client in hull_run(tmp_path, nodes=nodes).described["clients"]]
    repeated = [
        client["digest"] for client in hull_run(tmp_path, "again", nodes=nodes).described["clients"]
    ]
    config = parse({"method": "hull", "dataset": "uniform"})
    guesses = {load_data(config, Node.read(node)).digest for node in nodes}
    assert first == repeated
    assert len(set(first)) == 3
    assert not guesses & set(first)
    assert len(guesses) == 2
    secret = Path(nodes[0]["state-path"]) / "digest.key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_bytes()[-32:] not in written(tmp_path / "run")


@pytest.mark.parametrize(
    "settings",
    [QUICK, {"method": "fedavg", "num_rounds": 1, "dataset": "trees"}],
    ids=["hull", "avg"],
)
def test_nobody_else_reads_what_came_from_clients(settings, tmp_path):
    """Got: hulls.npz and model.safetensors, by any user of the server's machine."""
    from curvfed.server_app.report.run_page import write_report

    result = hull_run(tmp_path, **settings)
    write_report(result.path)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in result.path.rglob("*")
        if path.is_file()
    }
    del modes["config.toml"]
    assert {
        "clients.json",
        "clients.csv",
        "rounds.csv",
        "summary.json",
        "report.html",
    } < modes.keys()
    assert {name for name, mode in modes.items() if mode != 0o600} == set()
    folders = [result.path, *(path for path in result.path.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


FORGED = [
    ({"method": "hull"}, "train", "train"),
    ({"method": "hull"}, "calibrate", "query.calibrate"),
    ({"method": "fedavg", "secure-sum": True}, "hulls", "query.sum"),
    ({"method": "fedavg", "secure-sum": True}, "describe", "train"),
    ({"method": "fedavg", "secure-sum": True}, "calibrate", "query.calibrate"),
    ({"method": "fedavg", "dataset": "trees"}, "keys", "query.keys"),
]


@pytest.mark.parametrize(("settings", "phase", "message_type"), FORGED)
def test_a_phase_that_is_no_part_of_the_run_is_refused(settings, phase, message_type, tmp_path):
    """Before, only the lack of a model for points kept `train` out of a run of hulls."""
    (node,) = real_nodes(tmp_path / "nodes", [user_fields(40)])
    if settings.get("secure-sum"):
        node["secure-sum"] = True
    error, arrays = asked(node, settings, phase, message_type)
    assert (
        f'a message {message_type} of phase "{phase}" is no part of a run of method ='
        f' "{settings["method"]}"' in error
    )
    assert arrays == []


IMAGES = {"method": "fedavg", "dataset": "digits", "calibration": "ffc"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('methods = ["fedavg"]', 'calibrations = ["ffc"]'),
        ('methods = ["fedavg"]\ncalibrations = []', 'calibrations = ["ffc"]'),
        ("calibrations = []", 'calibrations = ["ffc"]'),
        ('methods = ["fedavg"]\ncalibrations = ["ffc"]', ""),
        ("", ""),
    ],
)
def test_a_calibration_is_named_beside_the_methods(text, line):
    """Got: sums over the features of each class, from nodes that allow fedavg alone."""
    policy = Policy.model_validate(tomllib.loads(f"[runs]\n{text}"))
    if not line:
        assert policy.check_run(parse(IMAGES), owns_data=False).calibration == "ffc"
        return
    with refuses("policy", 'calibration = "ffc"', line, error=ConfigError):
        policy.check_run(parse(IMAGES), owns_data=False)
    policy.check_run(parse(IMAGES | {"calibration": "none"}), owns_data=False)


def test_the_own_calibration_of_a_method_is_named_with_it():
    policy = Policy.model_validate({"runs": {"methods": ["spherefed"]}})
    settings = IMAGES | {"method": "spherefed"}
    assert policy.check_run(parse(settings | {"calibration": "auto"}), owns_data=False)
    with refuses("policy", 'calibrations = ["ffc"]', error=ConfigError):
        policy.check_run(parse(settings), owns_data=False)


@pytest.mark.parametrize("phase", ["train", "calibrate", "fine-tune", "evaluate", "keys"])
def test_no_phase_comes_after_the_last_round(phase):
    """Got: training from crafted parameters in any round, at nodes that allow one round alone, where
    the parameters are those of the seed."""
    settings = IMAGES | {"num-rounds": 2, "fine-tune-epochs": 1, "secure-sum": True}
    settings |= {f"{key}-every": 1 for key in ("calibration", "fine-tune", "evaluate")}
    client: Any = SimpleNamespace(
        method=METHODS["fedavg"],
        node=Node(partition=0, num_partitions=2),
        is_private=False,
        config=resolve_defaults(parse(settings), "images"),
    )
    check_phase(phase, MESSAGE_TYPES[phase], client, OF_ROUNDS, 2)
    with refuses("phase", f'"{phase}" of round 3', "num-rounds = 2", error=ConfigError):
        check_phase(phase, MESSAGE_TYPES[phase], client, OF_ROUNDS, 3)
    if phase == "train":
        with refuses("phase", "of round 0", error=ConfigError):
            check_phase(phase, MESSAGE_TYPES[phase], client, OF_ROUNDS, 0)


@pytest.mark.parametrize(
    ("phase", "key"),
    [
        ("calibrate", "calibration-every"),
        ("fine-tune", "fine-tune-every"),
        ("evaluate", "evaluate-every"),
    ],
)
def test_a_phase_comes_after_the_rounds_of_the_configuration(phase, key):
    """Got: a calibration of another crafted network in each round, where the run has one."""
    settings = IMAGES | {"num-rounds": 7, "fine-tune-epochs": 1}
    client: Any = SimpleNamespace(
        method=METHODS["fedavg"],
        node=Node(partition=0, num_partitions=2),
        is_private=False,
        config=resolve_defaults(parse(settings), "images"),
    )
    message_type = MESSAGE_TYPES[phase]
    check_phase(phase, message_type, client, OF_ROUNDS, 7)
    with refuses("phase", f'"{phase}" of round 4', "num-rounds = 7", error=ConfigError):
        check_phase(phase, message_type, client, OF_ROUNDS, 4)
    client.config = resolve_defaults(parse(settings | {key: 2}), "images")
    check_phase(phase, message_type, client, OF_ROUNDS, 4)
    with refuses("phase", "of round 5", error=ConfigError):
        check_phase(phase, message_type, client, OF_ROUNDS, 5)
    client.config = resolve_defaults(parse(settings | {"early-stopping": 1}), "images")
    check_phase(phase, message_type, client, OF_ROUNDS, 5)


def test_a_node_that_masks_sends_no_arrays_without_masks(tmp_path):
    """The veto holds by the phase too, not only by what the whole run says of itself."""
    guarded = SimpleNamespace(method=METHODS["fedavg"], node=Node(partition=0, secure_sum=True))
    guarded.config = parse({"method": "fedavg", "dataset": "trees"})
    with pytest.raises(
        ConfigError, match='secure sums alone; phase "train" would send its reply unmasked'
    ):
        check_phase("train", "train", guarded, OF_ROUNDS, 1)
    guarded.config = parse({"method": "fedavg", "dataset": "trees", "secure-sum": True})
    check_phase("train", "train", guarded, OF_ROUNDS, 1)
    (node,) = real_nodes(tmp_path / "nodes", [user_fields(40)])
    (node,) = with_policy(tmp_path, [node], "[leaves]\nsecure-sum = true\n")
    error, _ = asked(node, {"method": "fedavg", "dataset": "trees"}, "train", "train")
    assert error is not None
    assert error.startswith(
        "this node takes part in secure sums alone; the run has secure-sum = false"
    )


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_node_that_masks_sends_no_hulls_to_a_run_with_open_scores(is_masked, tmp_path):
    """Its hulls left it before it refused the score, and the run's mean was over the others."""
    nodes = nodes_of(tmp_path / "nodes", [blobs("01", seed=seed) for seed in range(4)])
    (strict,) = with_policy(tmp_path, nodes[:1], "[leaves]\nsecure-sum = true\n")
    done = hull_run(tmp_path, nodes=[strict, *nodes[1:]], secure_sum=is_masked)
    assert done.summary["metrics"]["clients_left_out"] == 0
    assert done.summary["num_clients"] == 3 + is_masked
    reasons = list(done.described["refused"].values())
    assert [reason.endswith("run with secure-sum=true") for reason in reasons] == [True] * (
        not is_masked
    )


# --- Who is real


def test_a_node_is_real_unless_this_process_simulates_it():
    """Got: a node by Flower's own command, with a share and no path, counted as simulated."""
    assert is_real({"partition-id": 0, "num-partitions": 3})
    assert is_real({"partition-id": 0, "num-partitions": 3, "simulated": True, "in-memory": "yes"})
    assert not is_real(simulated_nodes(3)[0])
    assert Node.read({"partition-id": 0, "num-partitions": 3}).rules == Policy()
    assert Node.read(simulated_nodes(3)[0]).rules is None


def test_the_stricter_of_policy_and_node_config_counts(tmp_path):
    text = "[leaves]\nsecure-sum = true\nshare-statistics = false\nhull-max-share = 0.3\n"
    (node,) = with_policy(
        tmp_path, [{"partition-id": 0, "hull-max-share": 0.5, "share-statistics": True}], text
    )
    limits = Node.read(node | {"num-partitions": 1})
    assert (limits.secure_sum, limits.share_statistics, limits.hull_max_share) == (True, False, 0.3)
    strict = Node(partition=0, secure_sum=True, share_statistics=False, hull_max_share=0.1)
    limits = strict.under(Policy.model_validate({"leaves": {"share-statistics": True}}))
    assert (limits.secure_sum, limits.share_statistics, limits.hull_max_share) == (True, False, 0.1)
    with pytest.raises(ConfigError, match=r"data-path .* and path in .* differ"):
        Node(partition=0, data_path=Path("/b.pt")).under(
            Policy.model_validate({"data": {"path": "/a.pt"}})
        )


def test_a_changed_policy_holds_from_the_next_message_on(tmp_path):
    nodes = real_nodes(tmp_path / "nodes", [user_fields(40, seed=number) for number in range(3)])
    (node,) = with_policy(tmp_path, nodes[:1], "")
    config = parse({"method": "fedavg", "dataset": "trees", "embedding-dim": 4})
    client = get_client(config, "run", Node.read(node))
    assert get_client(config, "run", Node.read(node)) is client
    Path(node["policy"]).write_text('[runs]\nmethods = ["hull"]\n')
    with pytest.raises(ConfigError, match="fedavg"):
        get_client(config, "run", Node.read(node))


def test_secrets_and_paths_are_no_part_of_a_nodes_representation(tmp_path):
    keys = ("data-path", "state-path", "signing-key", "roster")
    node = Node.read({"partition-id": 3} | {key: str(tmp_path / "mine") for key in keys})
    assert "mine" not in repr(node)
    assert "mine" not in str(node)
    assert "partition=3" in repr(node)


def test_the_policy_names_the_data(tmp_path):
    nodes = real_nodes(tmp_path / "nodes", [user_fields(40, seed=number) for number in range(3)])
    moved = []
    for number, node in enumerate(nodes):
        path = node.pop("data-path")
        moved += with_policy(tmp_path / str(number), [node], f'[data]\npath = "{path}"\n')
    from app_runs import run

    assert run(tmp_path, nodes=moved, num_rounds=1).summary["dataset"] == "own data of 3 nodes"


WRONG = {
    "[sums]\ncontributors = 0": "line 2: [sums] contributors = 0; allowed",
    "[sums]\n\nneighbors = 3": 'line 3: there is no "neighbors"; allowed',
    '[runs]\nkeys = { "local-epoch" = [1] }': 'no run has a key "local-epoch"; did you mean'
    ' "local-epochs"?',
    '[runs]\nkeys = { seed = [1], "hull.epsilon" = { min = "a" } }': "line 2: [runs] keys,"
    ' "hull.epsilon" = {"min": "a"}; allowed is',
    "[runs]\ncode = ['any', 'x']": 'line 2: [runs] code = ["any", "x"]; allowed is',
    "runs = 3": "line 1: runs = 3; allowed is a table [runs]",
    "[leave]\nsecure-sum = true": 'line 1: there is no "leave"; allowed',
    '[leaves]\nsecure-sum = "true"': 'line 2: [leaves] secure-sum = "true"',
    '[data]\npath = "own/smith.csv"': "[data] path = ",
    '[data]\npath = ["/own/smith.csv"]': '[data] path = ["/own/smith.csv"]; allowed is',
    '[data]\nclasses = "smith"': '[data] classes = "smith"; allowed is',
    'data = "/own/smith.csv"': 'line 1: data = "/own/smith.csv"; allowed is a table [data]',
    "[data": "cannot be read (Expected ']'",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_policy_refuses_every_run_and_says_which_line(text, tmp_path):
    nodes = with_policy(tmp_path, clinics(tmp_path / "nodes"), text)
    with pytest.raises(ConfigError) as caught:
        Node.read(nodes[0])
    assert WRONG[text] in str(caught.value)
    assert "\n" not in str(caught.value)
    said = refusal(tmp_path, nodes)
    assert said.startswith("policy: policy")
    assert "smith" not in said


@pytest.mark.parametrize("fault", ["[data", "misspelt key"])
def test_a_node_that_refuses_every_run_says_its_number_and_keeps_a_ledger(fault, tmp_path):
    nodes = clinics(tmp_path / "nodes")
    if fault == "misspelt key":
        nodes = [node | {"polcy": "policy.toml"} for node in nodes]
    else:
        nodes = with_policy(tmp_path, nodes, fault)
    with pytest.raises(FederationError, match=r"\(partition-id 2\)"):
        hull_run(tmp_path, nodes=nodes)
    lines = Ledger(Path(nodes[2]["state-path"]) / "ledger-00002.jsonl").lines()
    assert [line["kind"] for line in lines] == ["refusal"]

"""What the commands read: pairs, preset files; what `check` says about them; how they show a run's figures."""

from pathlib import Path

import pytest
from flwr.common.config import get_fused_config_from_dir, parse_config_args
from image_fixtures import write_classes, write_idx
from rich.console import Console

from deployments import check, reference, simulate
from deployments.pairs import UsageError, pop_supernodes, read_pairs
from deployments.tables import LABELS, summary_table
from strategies.config import RunConfig, flatten, parse
from strategies.defaults import settled
from strategies.hull.baselines import NAMES as BASELINES
from strategies.point_data import public
from tasks.images.datasets import CIFAR10, SOURCES
from tasks.points.datasets import command

ROOT = Path(__file__).parents[2]
PRESETS = sorted((ROOT / "presets").rglob("*.toml"))
DEFAULTS = flatten(RunConfig())


# --- Preset files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_flower_and_the_commands_read_a_preset_alike(preset):
    by_flower = get_fused_config_from_dir(ROOT, parse_config_args([str(preset)]))
    assert parse(by_flower) == parse(read_pairs([str(preset)], DEFAULTS))
    assert by_flower != DEFAULTS


@pytest.mark.parametrize(
    "preset", [path for path in PRESETS if path.stem.startswith("hull")], ids=lambda path: path.stem
)
def test_what_a_preset_of_hulls_sets_is_looked_at(preset):
    """Where a run has a use for it: baselines and a sweep in simulations, on points."""
    config = parse(read_pairs([str(preset)], DEFAULTS))
    published = preset.stem == "hull-published"
    assert (config.method, config.dataset) == ("hull", "uniform" if preset.stem == "hull" else "olsson")
    assert (config.points.split_seed, config.hull.c) == ((3, 0.1) if published else (-1, 0.0))
    assert config.hull.grouping == ("spectral" if published else "assignment")
    assert config.hull.epsilon == 0.01
    assert bool(config.hull.epsilons) == (preset.stem == "hull")


def test_what_comes_later_wins(tmp_path):
    file = tmp_path / "one.toml"
    file.write_text('seed = 1\nmethod = "local"\n[flatland]\ngate = false\n')
    assert read_pairs(["seed=2", str(file)], DEFAULTS) == {"seed": 1, "method": "local", "flatland.gate": False}
    assert read_pairs([str(file), "seed=2"], DEFAULTS)["seed"] == 2
    assert read_pairs(["dataset=mine.toml"], DEFAULTS) == {"dataset": "mine.toml"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("num-ronds = 3", "'num-ronds' is not a key of the run config; did you mean 'num-rounds'?"),
        ("[flatland]\ngat = true", "did you mean 'flatland.gate'?"),
        ("seed = [1, 2]", "seed is [1, 2]; allowed is a number, a string, true or false"),
        ("seed =", "is not TOML"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_will_not_do_is_named(tmp_path, content, message):
    file = tmp_path / "one.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError) as caught:
        read_pairs([str(file)], DEFAULTS)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_the_number_of_clients_is_taken_out():
    config = {"num-supernodes": 3, "seed": 1}
    assert pop_supernodes(config, 10) == 3
    assert config == {"seed": 1}
    assert pop_supernodes(config, 10) == 10
    for wrong in (0, True, "ten", 1.0):
        with pytest.raises(UsageError, match="num-supernodes"):
            pop_supernodes({"num-supernodes": wrong}, 10)


# --- check ------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """A terminal where no cell is broken."""
    monkeypatch.setenv("COLUMNS", "200")


def told(output: str, key: str) -> list[str]:
    """The cells of a key's row."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    (row,) = [cells for cells in rows if cells[0] == key]
    return row


def test_check_shows_what_would_be_used(capsys):
    assert check.main(["method=fedavg", "seed=7", "flatland.gate=false", "num-supernodes=3"]) == 0
    output = capsys.readouterr().out
    assert told(output, "seed")[:3] == ["seed", "7", "set"]
    assert told(output, "method")[:3] == ["method", '"fedavg"', "set"]
    assert told(output, "flatland.gate") == ["flatland.gate", "false", "set", "true or false"]
    assert told(output, "dropout") == ["dropout", "0.5", "default", "a number >= 0 and < 1"]
    for key in DEFAULTS:
        told(output, key)


@pytest.mark.parametrize(
    ("method", "task"), [("hyperfed", "images"), ("ccvr", "images"), ("flatland", "nodes"), ("hull", "points")]
)
def test_check_shows_what_the_task_chooses(capsys, method, task):
    open_keys = {"learning-rate", "local-epochs", "optimizer", "partition", "aggregation", "fine-tune-epochs"}
    config = parse({"method": method})
    before, after = flatten(config), flatten(settled(config, task))
    assert check.main([f"method={method}"]) == 0
    output = capsys.readouterr().out
    for key in open_keys:
        assert told(output, key)[1].replace('"', "") == f"{before[key]} → {after[key]}"
    assert told(output, "seed")[1] == "0"
    assert check.main([f"method={method}", "learning-rate=0.3"]) == 0
    assert told(capsys.readouterr().out, "learning-rate")[1:3] == ["0.3", "set"]


@pytest.mark.parametrize("command", [check, simulate, reference])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_shows_examples_and_does_nothing(command, option, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(reference, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(reference, "PROJECT", tmp_path / "project.toml")
    with pytest.raises(SystemExit) as end:
        command.main([option])
    assert end.value.code == 0
    output = capsys.readouterr().out
    name = command.__name__
    assert output.startswith(f"usage: python -m {name} [-h]")
    if command is not reference:
        assert f"    python -m {name} method=" in output
        assert f"    python -m {name} presets/" in output
        assert "[key=value ...]" in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learning-rat=1"], "'learning-rat' is not a key of the run config; did you mean 'learning-rate'?"),
        (["seed=-1"], "seed = -1: allowed is a whole number >= 0"),
        (["num-rounds=many"], "num-rounds = 'many': allowed is a whole number"),
        (["normalize=max"], 'normalize = \'max\': allowed is one of "l2", "l1", "none"'),
        (["method=flatlnd"], 'method = "flatlnd"; did you mean "flatland"?; allowed is one of'),
        (["dataset=coral"], 'did you mean "cora"?'),
        (["train-size=0.7", "test-size=0.7"], "allowed is a sum of at most 1"),
        (["dataset=/no/where.pt"], 'dataset = "/no/where.pt"'),
        (["dataset=/no/where.npz", "method=hull"], 'dataset = "/no/where.npz": no file /no/where.npz'),
        (["test-data=/no/where.csv", "method=hull"], 'test-data = "/no/where.csv": no file /no/where.csv'),
        (["test-data=presets/hull.toml", "method=hull"], "or no file of points, .npz, .csv, .h5ad"),
        (
            ["method=hull", "num-supernodes=1"],
            "of whom 1 would be summed: a sum over 1 hides nothing: it must be over two clients or more",
        ),
        (["method=fedavg", "secure-sum=true", "fraction-train=0.1"], "num-supernodes = 10, of whom 1 would be summed"),
        (
            ["method=hull", "secure.threshold=5"],
            "threshold 5 of 10 clients: it must be from 6, more than half of them,",
        ),
        (
            ["method=hull", "secure.threshold=20"],
            "threshold 20 of 10 clients: it must be from 6, more than half of them, to 10",
        ),
        (["method=hull", "hull.code=bose-chowla", "num-supernodes=2", "hull.h=9"], "hull.h = 9"),
        (["method=hull", "hull.num-classes=5000", "hull.cap=10000"], "take a smaller hull.cap"),
        (["dataset=/no/where", "method=hyperfed"], 'dataset = "/no/where": no folder /no/where'),
        (["test-data=/no/where", "method=hyperfed"], 'test-data = "/no/where": no folder /no/where'),
        (["num-supernodes=0"], "num-supernodes is 0"),
        (["seed", "1"], "'seed' is not of the form key=value"),
        (["dataset=MUTAG,BZR", "num-supernodes=3"], "num-supernodes is 3; allowed for 2 data sets is a multiple of 2"),
    ],
)
def test_check_names_the_one_thing_that_is_wrong(capsys, arguments, message):
    assert check.main(arguments) == 2
    output = capsys.readouterr().out
    assert output.startswith("error: ")
    assert message in output
    assert len(output.splitlines()) == 1


def test_check_looks_for_the_files(capsys, cora_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.graphs.download.fetch", lambda *_: pytest.fail("check must not download"))
    assert check.main(["dataset=Cora", f"data-dir={cora_dir}"]) == 0
    assert f"all files in {cora_dir / 'planetoid' / 'Cora' / 'raw'}" in capsys.readouterr().out
    assert check.main(["dataset=cora", f"data-dir={tmp_path}"]) == 0
    assert f"neither in {tmp_path / 'planetoid' / 'Cora' / 'raw'}" in capsys.readouterr().out
    (tmp_path / "own.pt").touch()
    assert check.main(["dataset=own.pt", f"data-dir={tmp_path}"]) == 0
    assert f"data: {tmp_path / 'own.pt'}" in capsys.readouterr().out


def test_check_looks_for_images(capsys, tmp_path, monkeypatch):
    for fetch in ("fetch", "fetch_by"):
        monkeypatch.setattr(f"tasks.graphs.download.{fetch}", lambda *_: pytest.fail("check must not download"))
    here = f"data-dir={tmp_path}"

    def said(*arguments: str) -> str:
        assert check.main(["method=fedavg", here, *arguments]) == 0
        output = capsys.readouterr().out
        return output[output.rindex("┘") + 1 :].strip()

    assert said("dataset=digits") == "data: digits, built in"
    absent = f"data: MNIST is not in {tmp_path / 'MNIST' / 'raw'}; the run would try to download it, as does\n"
    assert said("dataset=MNIST") == absent + SOURCES["mnist"].command(tmp_path)
    assert f"not in {tmp_path / 'cifar-10-batches-py'} nor in {tmp_path / 'train'} nor" in said("dataset=cifar10")
    write_idx(tmp_path, num_train=20, num_test=20)
    assert said("dataset=mnist") == f"data: MNIST, all files in {tmp_path / 'MNIST' / 'raw'}"
    for part in ("train", "test"):
        write_classes(tmp_path / part, dict.fromkeys(CIFAR10, 1), shape=(32, 32, 3))
    assert said("dataset=cifar10") == f"data: CIFAR-10, all files in {tmp_path / 'train'} and {tmp_path / 'test'}"
    test = tmp_path / "test"
    assert said(f"dataset={test}") == f"data: images in {test}"
    assert said("dataset=digits", f"test-data={test}").endswith(f"\ntest data: images in {test}")


def said(capsys, *arguments: str) -> list[str]:
    """What `check` says below its table."""
    assert check.main([*arguments]) == 0
    output = capsys.readouterr().out
    return output[output.rindex("┘") + 1 :].strip().splitlines()


def test_check_looks_for_points(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.graphs.download.fetch_by", lambda *_: pytest.fail("check must not download"))
    here, own = ("method=hull", f"data-dir={tmp_path}"), tmp_path / "own.CSV"
    assert said(capsys, *here)[0] == "data: uniform, generated by the run"
    absent = f"data: Olsson is not in {tmp_path / 'poincare'}; the run would try to download it, as does"
    assert said(capsys, *here, "dataset=Olsson")[:2] == [absent, command(tmp_path)]
    (tmp_path / "poincare").mkdir()
    (tmp_path / "poincare" / "olsson.npz").touch()
    assert said(capsys, *here, "dataset=olsson")[0] == f"data: Olsson, {tmp_path / 'poincare' / 'olsson.npz'}"
    own.touch()
    assert said(capsys, *here, f"dataset={own}")[0] == f"data: points in {own}"
    assert said(capsys, *here, "dataset=own.CSV")[0] == f"data: points in {own}"
    assert said(capsys, *here, f"test-data={own}")[1] == f"test data: points in {own}"


@pytest.mark.parametrize(
    ("arguments", "classes", "clients"),
    [
        ((), 2, 10),
        (("num-supernodes=3", "hull.epsilon=2", "hull.cap=5"), 2, 3),
        (("hull.num-classes=8", "dataset=olsson", "hull.code=bose-chowla"), 8, 10),
        (("points.classes=0,3,7", "dataset=olsson", "num-supernodes=4"), 3, 4),
        (("hull.num-classes=4", "points.curvature=-4"), 4, 10),
        (("hull.epsilon=20",), 2, 10),
    ],
)
def test_check_says_what_hulls_would_cost(capsys, arguments, classes, clients):
    settings = read_pairs(["method=hull", *arguments], DEFAULTS | {"num-supernodes": 10})
    settings.pop("num-supernodes", None)
    values = public(settled(parse(settings), "points"), classes, clients)
    last = said(capsys, "method=hull", *arguments)[-1]
    assert f"makes {values.quantizer.num_bins:,} bins; for {classes} classes" in last
    assert f"sends {values.length:,} numbers modulo {values.prime} ({values.length * 8 / 1000:,.1f} kB)" in last
    assert last.endswith("a sum for every bin" if values.is_dense else "power sums")


def test_check_does_not_guess_how_many_classes_there_are(capsys):
    assert said(capsys, "method=hull", "dataset=olsson")[-1].startswith("secure sum: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("method=hull",), "7 of 10 clients must stay to its end; each shares its secrets with 9 others"),
        (("method=fedavg", "secure-sum=true", "num-supernodes=3"), "2 of 3 clients must stay to its end; each shares its "),
        (("method=fedavg", "secure-sum=true", "fraction-train=0.6", "secure.threshold=5"), "5 of 6 clients must stay"),
        (("method=spherefed", "secure-sum=true", "num-supernodes=90", "secure.neighbours=11"), "60 of 90 clients must stay "
         "to its end; each shares its secrets with 12 others"),
    ],
)  # fmt: skip
def test_check_says_who_must_stay_to_the_end_of_a_sum(capsys, arguments, told):
    assert [line for line in said(capsys, *arguments) if line.startswith(f"secure sum: {told}")]


def test_check_says_nothing_of_sums_that_there_are_none_of(capsys):
    assert said(capsys, "method=fedavg") == ["data: trees, generated by the run"]


# --- The table of a run's figures -------------------------------------------------------------------------------------


def test_the_figures_of_a_run_stand_in_order():
    figures = {"personal_accuracy_mean": 0.8, "personal_accuracy_std": 0.05}
    summary = {
        "status": "completed",
        "rounds": 3,
        "global_accuracy": 0.9,
        **figures,
        "metrics": {"personal_accuracy_before": 0.7, "replies_dropped": 0, "global_accuracy_calibrated": 0.9},
        "best_validation": {"round": 2, **figures, "metrics": {"personal_accuracy_before": None}},
        "bytes_up": 63312.0,
        "seconds": None,
        "versions": {"torch": "2"},
    }
    console = Console(width=100, record=True)
    console.print(summary_table(summary))
    lines = [line for line in console.export_text().splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == [
        ["status", "completed", ""],
        ["round", "3", "2"],
        ["global accuracy", "0.9000", ""],
        ["· classifier calibrated", "0.9000", ""],
        ["personal accuracy", "0.8000 ± 0.0500", "0.8000 ± 0.0500"],
        ["· of the model as received", "0.7000", ""],
        ["bytes up, per client and round", "63,312", ""],
        ["replies dropped", "0", ""],
    ]
    assert summary_table(summary | {"best_validation": None}).columns[-1].header == "last round"


def test_of_a_one_shot_run_what_matters_is_shown():
    hidden = {f"{name}_{phase}": 1.0 for phase in ("keys", "hulls") for name in ("seconds", "bytes_up", "bytes_down")}
    metrics = {"hull_share_revealed": 0.4945, "hull_count": 24, "hull_prime": 4215309883, "hull_vertices_mean": 5.5,
               "accuracy_fle": 0.6875, "dropouts": 1, "clients_left_out": 3, "grouping_accuracy": None}  # fmt: skip
    figures = {"status": "completed", "method": "hull", "num_clients": 3, "rounds": 0, "global_accuracy": 0.8958,
               "personal_accuracy_mean": None, "bytes_up": 49674.25, "bytes_down": 593.0, "seconds": 4.0051}  # fmt: skip
    table = summary_table(figures | {"metrics": hidden | metrics})
    assert [column.header for column in table.columns] == ["", "one shot"]
    assert list(zip(*(column.cells for column in table.columns), strict=True)) == [
        ("status", "completed"),
        ("method", "hull"),
        ("num clients", "3"),
        ("global accuracy", "0.8958"),
        ("· Euclidean SVM on the same hulls", "0.6875"),
        ("share of points that hulls reveal", "0.4945"),
        ("hulls", "24"),
        ("clients that dropped out", "1"),
        ("bytes up, per client", "49,674"),
        ("bytes down, per client", "593"),
        ("seconds", "4.0051"),
    ]
    failed = summary_table({"status": "failed", "error": "no data", "method": "hull", "rounds": None, "metrics": {}})
    assert [*failed.columns[0].cells] == ["status", "error", "method"]


def test_what_a_one_shot_run_is_compared_with_stands_by_its_accuracy():
    names = [f"accuracy_{name.replace('-', '_')}" for name in BASELINES]
    table = summary_table({"seconds": 1.0, "metrics": dict.fromkeys(reversed(names), 0.5), "global_accuracy": 0.75})
    assert [*table.columns[0].cells] == ["global accuracy", *(LABELS[name] for name in names), "seconds"]

"""What the commands read: pairs and presets; what `check` says; how figures are shown."""

import contextlib
from pathlib import Path

import pytest
from errors import refuses
from flwr.common.config import get_fused_config_from_dir, parse_config_args

from curvfed.deployments.arguments import UsageError, read_pairs, read_request
from curvfed.deployments.commands.command import main
from curvfed.deployments.package_files import package_files
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults, flatten, resolve_defaults
from curvfed.strategies.errors import ConfigError

ROOT = Path(__file__).parents[3]
PRESETS = list(package_files("presets").values())
DEFAULTS = defaults()


# Preset files


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_flower_and_the_commands_read_a_preset_alike(preset):
    by_flower = get_fused_config_from_dir(ROOT, parse_config_args([str(preset)]))
    assert parse(by_flower) == parse(read_pairs([str(preset)], DEFAULTS))
    assert by_flower != DEFAULTS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("num-ronds = 3", '"num-ronds" is not a key of the run config; did you mean "num-rounds"?'),
        ("[flatland]\ngat = true", 'did you mean "flatland.gate"?'),
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


PAIR = "fedslow.step=0.3"


@pytest.mark.parametrize("words", [["method=fedslow", PAIR], [PAIR, 'method="fedslow"']])
def test_an_unknown_method_is_refused_before_its_keys(words, tmp_path, monkeypatch):
    with refuses("no-such-method", 'method = "fedslow" is not known', error=ConfigError):
        read_pairs(words, DEFAULTS)
    file = tmp_path / "one.toml"
    file.write_text('method = "fedslow"\n[fedslow]\nstep = 0.3\n')
    with refuses("no-such-method", 'method = "fedslow" is not known', error=ConfigError):
        read_pairs([str(file)], DEFAULTS)
    with refuses("unknown-key", '"fedslow.step" is not a key', error=UsageError):
        read_pairs(["method=fedavg", PAIR], DEFAULTS)
    (tmp_path / "strategies/methods").mkdir(parents=True)
    (tmp_path / "strategies/methods/fedslow.py").touch()
    monkeypatch.chdir(tmp_path)
    here = "strategies/methods/fedslow.py lies here, but curvfed is installed in "
    with refuses("no-such-method", f"{here}{ROOT}: pip install -e .", error=ConfigError):
        read_pairs(words, DEFAULTS)


# check


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    """A terminal where no cell is broken, and a home for what is kept of the data."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def rows(output: str) -> dict[str, list[str]]:
    """The cells of each key's row after the first."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return {
        cells[0]: cells[1:]
        for cells in ([cell.strip() for cell in line.strip("│").split("│")] for line in lines)
    }


def shown(capsys, *arguments: str) -> dict[str, list[str]]:
    assert main(["check", *arguments]) == 0
    return rows(capsys.readouterr().out)


def test_check_shows_what_would_be_used(capsys):
    result = shown(
        capsys, "--all", "method=fedavg", "seed=7", "flatland.gate=false", "num-supernodes=3"
    )
    assert result["num-supernodes"][:2] == ["3", "set"]
    assert result["seed"][:2] == ["7", "set"]
    assert result["method"][:2] == ['"fedavg"', "set"]
    assert result["flatland.gate"] == ["false", "set", "true or false"]
    assert result["dropout"] == ["0.5", "default", "a number >= 0 and < 1"]
    assert result.keys() - {"", "num-supernodes"} == DEFAULTS.keys()


TABLES = {
    "method=flatland": {"flatland"},
    "method=fedavg": set(),
    "method=fedavg dataset=digits aggregation=consistent": {"images", "hyperfed"},
    "method=fedavg dataset=digits aggregation=fedopt secure-sum=true": {
        "images",
        "fedopt",
        "secure",
    },
    "method=fedavg dataset=digits aggregation=flower:FedAdam flower.eta=0.5": {"images", "flower"},
    "method=fedavg model=lorentz": {"flatland"},
    "method=fedhgcn": {"flatland", "fedhgcn"},
    "method=fed-pub": {"fed-pub"},
    "method=hull": {"points", "hull", "secure"},
}


@pytest.mark.parametrize("arguments", TABLES)
def test_check_shows_the_tables_that_the_run_has_a_use_for(capsys, arguments):
    result = shown(capsys, *arguments.split())
    tables = {key.partition(".")[0] for key in result if "." in key}
    assert tables == TABLES[arguments]
    assert {key for key in result if "." in key} == {
        key for key in DEFAULTS if "." in key and key.partition(".")[0] in tables
    }
    assert {len(cells) for cells in result.values()} == {2}


OF_GRAPHS = {"dropout", "normalize"}
OF_IMAGES = {"min-client-size"}
OF_SOME_VALUES = {"alpha", "shards", "momentum", "decay", "decay-every"}
OF_NETWORKS = {"embedding-dim"}
OF_ROUNDS = {"num-rounds", "learning-rate"}


@pytest.mark.parametrize(
    ("arguments", "hidden"),
    [
        ("method=fedavg", OF_IMAGES | OF_SOME_VALUES),
        ("method=fedavg schedule=inverse", OF_IMAGES | OF_SOME_VALUES - {"decay-every"}),
        ("method=fedavg dataset=digits", OF_GRAPHS | {"shards", "decay", "decay-every"}),
        (
            "method=fedavg dataset=digits partition=shards optimizer=adam",
            OF_GRAPHS | OF_SOME_VALUES - {"shards"},
        ),
        ("method=fedavg dataset=uniform", OF_GRAPHS | OF_IMAGES | OF_SOME_VALUES | OF_NETWORKS),
        ("method=hull", OF_GRAPHS | OF_IMAGES | OF_SOME_VALUES | OF_NETWORKS | OF_ROUNDS),
    ],
)
def test_check_leaves_out_keys_without_effect(capsys, arguments, hidden):
    result = shown(capsys, *arguments.split())
    possible = OF_GRAPHS | OF_IMAGES | OF_SOME_VALUES | OF_NETWORKS | OF_ROUNDS
    assert possible - result.keys() == hidden


def test_check_says_that_a_key_has_no_effect(capsys):
    assert main(["check", "method=fedavg", "dataset=digits", "dropout=0.1", "decay=0.2"]) == 0
    output = capsys.readouterr().out
    assert "note: dropout has no effect: a run on images does not read it" in output
    assert "note: decay has no effect: a run reads it with schedule = steps" in output
    assert rows(output)["dropout"] == ["0.1", "set"]


def test_the_file_of_a_run_has_no_notes_on_defaults_without_effect(tmp_path, capsys):
    file = tmp_path / "config.toml"
    file.write_text('method = "fedavg"\ndataset = "digits"\nmomentum = 0.9\ndecay = 0.2\n')
    assert main(["check", str(file)]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "has no effect" in line]
    assert notes == ["note: decay has no effect: a run reads it with schedule = steps"]


@pytest.mark.parametrize(
    ("method", "task", "model"),
    [("hyperfed", "images", "cnn"), ("flatland", "nodes", "lorentz"), ("hull", "points", "auto")],
)
def test_check_shows_what_the_task_chooses(capsys, method, task, model):
    config = parse({"method": method})
    before, after = flatten(config), flatten(resolve_defaults(config, task)) | {"model": model}
    result = shown(capsys, "--all", f"method={method}")
    for key in (
        "learning-rate",
        "local-epochs",
        "optimizer",
        "partition",
        "aggregation",
        "fine-tune-epochs",
        "model",
    ):
        origin = "default" if after[key] == before[key] else "auto"
        assert [cell.replace('"', "") for cell in result[key][:2]] == [str(after[key]), origin]
    assert result["seed"][:2] == ["0", "default"]
    result = shown(capsys, f"method={method}", "learning-rate=0.3", "partition=auto")
    assert result["learning-rate"] == ["0.3", "set"]
    assert result["partition"] == [f'"{after["partition"]}"', "auto"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["method=fedavg", "dataset=digits"],
            {
                "images.size": "8",
                "images.channels": "1",
                "device": '"cpu"',
                "calibration": '"none"',
            },
        ),
        (
            ["method=fedavg", "dataset=trees", "learning-rate=0.25"],
            {"test-data": '"none"', "fine-tune-learning-rate": "0.25"},
        ),
    ],
)
def test_check_shows_what_this_machine_and_the_data_decide(capsys, monkeypatch, words, expected):
    """They were all "auto"."""
    monkeypatch.setattr("curvfed.strategies.config.device.has_gpu", lambda: False)
    result = shown(capsys, *words)
    assert {key: result[key] for key in expected} == {
        key: [value, "auto"] for key, value in expected.items()
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("test-data=/no/where.csv method=hull", "test-data"),
        ("method=hull num-supernodes=1", "num-supernodes = 1"),
        ("method=hull hull.num-classes=5000 hull.cap=10000", "hull.cap"),
        ("dataset=MUTAG,BZR num-supernodes=3", "a multiple of 2"),
        ("method=hyperfed secure-sum=true", "only the sum"),
        *(
            (f"method=fedavg dataset={data} partition={name}", f'partition = "{name}"')
            for data, name in (("digits", "louvain"), ("uniform", "metis"), ("trees", "iid"))
        ),
    ],
)
def test_check_names_what_is_wrong(capsys, arguments, message):
    assert main(["check", *arguments.split()]) == 2
    output = capsys.readouterr().err
    assert output.startswith("error: ")
    assert message in output
    assert len(output.splitlines()) == 1


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    with contextlib.suppress(ImportError):  # the extension may be absent
        monkeypatch.setattr(
            "curvfed.extensions.public_data.downloads.fetch",
            lambda *_: pytest.fail("check must not download"),
        )


def test_the_number_of_clients_of_a_run_is_that_of_its_resume_and_of_its_settings(own_home):
    folder = own_home / "results" / "mine"
    folder.mkdir(parents=True)
    stored = '{"clients": [{"partition": 0}], "refused": {"node 3": "its data are damaged"}}'
    (folder / "clients.json").write_text(stored)
    (folder / "config.toml").write_text("num-rounds = 7\n")
    words = ["run-name=mine", "resume=true", f"results-dir={folder.parent}"]
    with pytest.raises(
        UsageError, match="is 10; the run began with 2: allowed is num-supernodes=2"
    ):
        read_request(words)
    assert read_request([*words, "num-supernodes=2"]).num_supernodes == 2
    again = read_request([str(folder / "config.toml")])
    assert (again.num_supernodes, again.config.num_rounds) == (2, 7)
    assert read_request([str(folder / "config.toml"), "num-supernodes=3"]).num_supernodes == 3

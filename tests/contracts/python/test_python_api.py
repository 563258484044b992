"""Calls from Python: data in memory are as those in files, and a run is read back."""

import doctest
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from app_runs import Run as Files
from app_runs import rows, run
from graph_fixtures import user_fields, user_graphs
from hull_nodes import blobs
from image_fixtures import made
from PIL import Image
from safetensors.numpy import load_file
from tiers import only
from torch_geometric.data import Data

import curvfed
import curvfed.server_app.app
from curvfed.client_app.node import SIMULATED
from curvfed.deployments import predict, python_api, stored_run
from curvfed.deployments.arguments import UsageError, pop_supernodes
from curvfed.deployments.predict import TrainedRun
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError

SMALL = {"embedding_dim": 8, "num_rounds": 2, "quiet": True}
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(autouse=True)
def here(own_home):
    """Every test has a home of its own."""
    return own_home


def results(home: Path) -> list[str]:
    folder = home / "curvfed" / "results"
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def nodes(folder: Path) -> tuple[list[object], list[Path]]:
    """Graphs of nodes, the first with masks of its own and in float64, and their files."""
    graphs = [Data(**user_fields(seed=seed)) for seed in range(3)]
    number = torch.arange(graphs[0].num_nodes) % 3
    graphs[0].train_mask, graphs[0].val_mask, graphs[0].test_mask = (
        number == 0,
        number == 1,
        number == 2,
    )
    graphs[0].x = graphs[0].x.double()
    return graphs, stored(folder, graphs)


def whole_graphs(folder: Path) -> tuple[list[object], list[Path]]:
    sets: list[object] = [[Data(**fields) for fields in user_graphs(12, seed)] for seed in range(3)]
    return sets, stored(folder, sets)


def stored(folder: Path, items: list[object]) -> list[Path]:
    paths = [folder / f"{number}.pt" for number in range(len(items))]
    for path, item in zip(paths, items, strict=True):
        torch.save(item, path)
    return paths


def images(folder: Path) -> tuple[list[object], list[Path]]:
    """Grey images in the order of folders of classes, as NumPy's arrays and as torch's."""
    items: list[object] = []
    for number in range(3):
        pixels, labels = made(30, (8, 8), 3, seed=number)
        order = np.argsort(labels, kind="stable")
        pixels, names = pixels[order], np.array(["ant", "bee", "cat"])[labels[order]]
        for place, (image, name) in enumerate(zip(pixels, names, strict=True)):
            path = folder / str(number) / name / f"{place:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
        items.append(
            (torch.from_numpy(pixels)[:, None], names) if number else (pixels, names.tolist())
        )
    return items, [folder / str(number) for number in range(3)]


def points(folder: Path) -> tuple[list[object], list[Path]]:
    items: list[object] = []
    for number in range(3):
        part = blobs(["0", "1", "2"], seed=number, test=0)
        np.savez(folder / f"{number}.npz", x_train=part["x_train"], y_train=part["y_train"])
        items.append((part["x_train"], part["y_train"].astype(int)))
    return items, [folder / f"{number}.npz" for number in range(3)]


FAMILIES = {
    "nodes": (nodes, {"method": "flatland"}),
    "graphs": (whole_graphs, {"method": "fedavg"}),
    "images": (images, {"method": "fedper", "local_epochs": 1}),
    "points": (points, {"method": "hull", "hull": {"c": 100.0}}),
}


@pytest.mark.parametrize("family", only(FAMILIES, {"nodes", "images"}.__contains__))
def test_data_in_memory_are_as_the_same_data_in_files(family, tmp_path, here):
    make, keys = FAMILIES[family]
    items, paths = make(tmp_path)
    made = curvfed.simulate(
        data=items, results_dir=tmp_path / "results", run_name="memory", **SMALL | keys
    )
    flat = {key.replace(".", "__"): value for key, value in dotted(keys).items()}
    configs = [
        SIMULATED | {"partition-id": number, "data-path": str(path)}
        for number, path in enumerate(paths)
    ]
    files = run(tmp_path / "results", "files", nodes=configs, share_statistics=True, **flat)
    described = Files(made.path).described["clients"]
    assert [one["digest"] for one in described] == [
        one["digest"] for one in files.described["clients"]
    ]
    mine, theirs = (load_file(path / "model.safetensors") for path in (made.path, files.path))
    assert mine.keys() == theirs.keys()
    assert all((mine[name] == theirs[name]).all() for name in mine)
    if family == "points":  # the paths themselves do as well
        given = curvfed.simulate(
            data=paths, results_dir=tmp_path / "results", run_name="paths", **SMALL | keys
        )
        assert (given.path / "model.safetensors").read_bytes() == (
            files.path / "model.safetensors"
        ).read_bytes()
    assert made.summary["dataset"] == files.summary["dataset"] == "own data of 3 nodes"
    for path in (made.path, files.path):
        assert curvfed.load(path).config["dataset"] == "own"
    for key in ("personal_accuracy_mean", "num_clients", "rounds", "bytes_up"):
        assert made.summary[key] == files.summary[key]
    assert (
        made.clients.score.dropna() == pd.read_csv(files.path / "clients.csv").score.dropna()
    ).all()
    assert not (here / "curvfed" / "personal" / "memory").exists()
    # And what is predicted of them.
    client = None if family in ("graphs", "points") else 2
    shown = [items[2], paths[2]] if family != "images" else [items[2][0], paths[2]]
    outcome, read = (made.predict(one, client) for one in shown)
    names = [
        family.removesuffix("s"),
        "class",
        "probability",
        *(["unknown"] if family == "points" else []),
    ]
    assert outcome.columns.tolist() == read.columns.tolist() == names
    assert outcome["class"].tolist() == read["class"].tolist()
    assert outcome.probability.tolist() == read.probability.tolist()
    assert outcome[names[0]].tolist() == list(range(len(outcome)))
    command = predict.predict(TrainedRun.read(made.path), str(paths[2]), client)
    assert read["class"].tolist() == command.classes
    assert read[names[0]].astype(str).tolist() == command.names


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("graph.pt", r"data\[0\]: no file or folder graph.pt; allowed is a path"),
        (Data(edge_index=torch.zeros(2, 0, dtype=torch.long)), r"data\[0\]: x must be a tensor"),
        (3, r"data\[0\] is an int; allowed is a graph"),
        ([], r"data\[0\]: the list is empty; it must hold at least one example"),
        (
            (np.zeros((4, 8, 8)), [0, 1, 0, 1]),
            r"data\[0\]: images are float64 of shape \(4, 8, 8\); allowed are uint8",
        ),
        ((np.zeros((4, 2, 8, 8), np.uint8), [0] * 4), "c of 1 or 3"),
        ((np.zeros((4, 8, 8), np.uint8), [0, 1]), r"labels has shape \(2,\); allowed is \(4,\)"),
        ((np.zeros((4, 3)), [0] * 4), r"data\[0\]: points is float64 of shape \(4, 3\)"),
    ],
)
def test_data_that_will_not_do_are_refused_before_anything_is_made(item, words, here):
    with pytest.raises(DataError, match=words):
        curvfed.simulate("fedavg", data=[item], **SMALL)
    assert results(here) == []


def nodes_of(features: int) -> dict[str, torch.Tensor]:
    fields = user_fields()
    return fields | {"x": fields["x"][:, :features]}


@pytest.mark.parametrize("as_files", [False, True])
def test_a_client_unlike_the_others_is_refused_before_anything_is_made(as_files, tmp_path, here):
    items: list[object] = [nodes_of(3), nodes_of(2), nodes_of(3)]
    data = stored(tmp_path, items) if as_files else items
    with pytest.raises(ValueError, match=r"data\[1\]: .* 2 features .* 3 features"):
        curvfed.simulate("fedavg", data=data, **SMALL)
    assert results(here) == []


def test_numbers_of_numpy_count_clients():
    assert pop_supernodes({"num-supernodes": np.int64(3)}, 10) == 3
    for number in (np.bool_(True), np.float64(3), True):
        with pytest.raises(UsageError, match="must be a whole number"):
            pop_supernodes({"num-supernodes": number}, 10)


def test_a_taken_name_is_refused_and_the_run_is_left_as_it_is(here):
    made = curvfed.simulate("local", num_supernodes=2, run_name="mine", **SMALL)
    before = {path.name: path.stat().st_mtime_ns for path in made.path.iterdir()}
    for keys, words in (
        (
            {"run_name": "mine"},
            'run-name = "mine": .* exists; allowed is a new name, or resume = true',
        ),
        ({"run_name": "absent", "resume": True}, "resume = true: there is no run in"),
        ({"run_name": "mine", "resume": True, "seed": 5}, "seed = 5, but the run began with 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            curvfed.simulate("local", num_supernodes=2, **SMALL | keys)
    assert results(here) == ["mine"]
    assert {path.name: path.stat().st_mtime_ns for path in made.path.iterdir()} == before


def test_keys_are_those_of_the_run_config(tmp_path):
    made = curvfed.simulate(
        "flatland",
        "trees",
        num_supernodes=2,
        results_dir=tmp_path,
        flatland={"gate": False, "curvature_init": "constant"},
        **{"flatland.proximal": 0.5},
        seed=3,
        device=None,
        **SMALL,
    )
    assert made.config["device"] == "auto"
    assert made.path.parent == tmp_path
    assert made.path.name.startswith("flatland-trees-3-")
    same = run(
        tmp_path,
        "same",
        2,
        seed=3,
        flatland__gate=False,
        flatland__curvature_init="constant",
        flatland__proximal=0.5,
    )
    assert (same.path / "model.safetensors").read_bytes() == (
        made.path / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        ({"num_ronds": 2}, {"num-ronds": 2}),
        ({"flatland": {"gat": True}}, {"flatland.gat": True}),
        ({"dataset": "coraa"}, {"dataset": "coraa"}),
    ],
)
def test_a_wrong_key_is_reported_as_the_command_tells_it(keys, settings, here):
    with pytest.raises(ConfigError) as refused:
        parse(settings)
    with pytest.raises(ConfigError, match=f"^{re.escape(str(refused.value))}$"):
        curvfed.simulate(**keys)
    assert results(here) == []


def test_tables_have_their_dtypes():
    made = curvfed.simulate("fedavg", num_supernodes=2, **SMALL)
    assert made.rounds.columns.tolist() == list(rows(made.path / "rounds.csv")[0])
    assert made.clients.columns.tolist() == list(rows(made.path / "clients.csv")[0])
    kinds = {name: str(made.rounds[name].dtype) for name in ("round", "loss", "reasons")}
    assert kinds == {"round": "int64", "loss": "float64", "reasons": "string"}
    trained = made.clients[made.clients.phase == "train"]
    assert trained[["round", "partition"]].to_numpy().tolist() == [[1, 0], [1, 1], [2, 0], [2, 1]]
    last = trained[trained["round"] == 2].score.mean()
    assert last == pytest.approx(made.summary["personal_accuracy_mean"])
    assert made.rounds is made.rounds


def test_runs_on_own_data_are_named_so_and_resumed_with_and_without_saying_it(tmp_path):
    items, paths = nodes(tmp_path)
    assert curvfed.simulate("local", data=items, **SMALL | {"num_rounds": 0}).path.name.startswith(
        "local-own-0-2"
    )
    configs = [
        SIMULATED | {"partition-id": number, "data-path": str(path)}
        for number, path in enumerate(paths)
    ]
    for number, dataset in enumerate(["auto", "own", "auto"], start=1):
        keys = {"num_rounds": number, "dataset": dataset, "embedding_dim": 8, "method": "fedavg"}
        outcome = run(tmp_path, "mine", nodes=configs, resume=number > 1, **keys)
        assert curvfed.load(outcome.path).config["dataset"] == "own"
        assert outcome.summary["rounds"] == number
    with pytest.raises(ConfigError, match='dataset = "own": this node has no data of its own'):
        curvfed.simulate("fedavg", "own", num_supernodes=2)


def test_data_in_memory_are_let_go_and_resumed(tmp_path):
    items, _ = nodes(tmp_path)
    once = curvfed.simulate("fedper", data=items, run_name="once", **SMALL)
    begun = curvfed.simulate("fedper", data=items, run_name="begun", **SMALL | {"num_rounds": 1})
    assert not curvfed.client_app.clients_in_memory._clients
    assert (
        curvfed.simulate("fedper", data=items, run_name="begun", resume=True, **SMALL).path
        == begun.path
    )
    mine, theirs = (load_file(one.path / "model.safetensors") for one in (begun, once))
    assert all((mine[name] == theirs[name]).all() for name in mine)
    with pytest.raises(
        ConfigError, match="the data of partitions 0, 2 have changed since the run began"
    ):
        curvfed.simulate(
            "fedper", data=items[::-1], run_name="begun", resume=True, **SMALL | {"num_rounds": 3}
        )


def test_a_run_is_shown_as_a_table_and_nothing_in_it_is_html(tmp_path):
    notes = {
        "status": "completed",
        "method": "<b>m</b>",
        "dataset": "a & b",
        "rounds": 3,
        "num_clients": 2,
        "metrics": {"<i>": 0.5},
        "global_accuracy": 0.25,
        "personal_accuracy_mean": 0.9125,
        "personal_accuracy_std": 0.05,
        "best_validation": {"round": 2, "global_accuracy": 0.75},
    }
    folder = tmp_path / "<run>"
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(notes))
    outcome = curvfed.load(folder)
    shown = outcome._repr_html_()
    assert "report.html" not in shown
    assert outcome.report() == folder / "report.html"
    linked = outcome._repr_html_()
    assert f'<a href="{(folder / "report.html").as_uri()}">' in linked
    tags = {"table", "thead", "tbody", "tr", "th", "td", "p", "a"}
    assert set(re.findall(r"</?(\w+)", linked)) <= tags
    for text in ("&lt;b&gt;m&lt;/b&gt;", "a &amp; b", "91.2% ± 5.0%", "<td>75.0%</td>"):
        assert text in shown
    assert repr(outcome) == f"<curvfed.Run <b>m</b> on a & b, completed, in {folder}>"


def test_a_run_is_found_by_its_path_or_its_name(tmp_path, monkeypatch):
    made = curvfed.simulate("local", num_supernodes=2, run_name="mine", **SMALL)
    monkeypatch.chdir(made.path.parents[1])
    for place in ("mine", made.path, "results/mine", f"~/curvfed/results/{made.path.name}"):
        assert curvfed.load(place).path == made.path
    for kind in (FileNotFoundError, ValueError):
        with pytest.raises(kind, match=f"the newest runs in {made.path.parent} are .*mine"):
            curvfed.load("other")


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, curvfed; dir(curvfed); curvfed.__version__\nprint([name for name in ('torch',"
        " 'flwr', 'pandas', 'numpy', 'pydantic') if name in sys.modules])\nfrom curvfed import"
        " geometry\ntry: curvfed.nothing\nexcept AttributeError as error: print(error)\n"
    )
    notes = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert notes.stdout == "[]\nmodule 'curvfed' has no attribute 'nothing'\n"
    assert {"Run", "load", "simulate", "__version__"} <= set(dir(curvfed))


def test_the_examples_in_the_docstrings_are_true():
    for module in (curvfed, python_api, stored_run):
        outcome = doctest.testmod(module)
        assert outcome.attempted > 0
        assert outcome.failed == 0


@pytest.mark.long
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "python.md").read_text(), re.DOTALL | re.MULTILINE
    )
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(blocks) > 3
    assert (tmp_path / "rounds.png").exists()


def test_a_quiet_run_logs_warnings_alone_where_an_earlier_run_has_set_up_the_log(tmp_path, caplog):
    _, (file, *_) = nodes(tmp_path)
    with caplog.at_level(logging.INFO, logger="curvfed"):
        curvfed.simulate("fedavg", file, num_supernodes=2, **SMALL)
    assert not [record for record in caplog.records if record.levelno < logging.WARNING]


@pytest.mark.parametrize("data", ["graph.pt", Path("graph.pt"), {"a": "graph.pt"}, [], 3])
def test_data_are_a_list_of_the_clients(data):
    with pytest.raises(
        UsageError,
        match=f"data is an? {type(data).__name__}.* a list with a path or an object for each",
    ):
        curvfed.simulate("fedavg", data=data)


def test_wrong_arguments_of_a_run_are_named():
    images = np.arange(40 * 64, dtype=np.uint8).reshape(40, 8, 8)
    done = curvfed.simulate(
        "fedavg", data=[(images, np.arange(40) % 2)] * 2, num_rounds=0, quiet=True
    )
    numbers = curvfed.load(done.path).clients.partition.unique()  # of NumPy
    assert len(numbers) == 2
    for number in numbers:
        assert done.predict(images, client=number).equals(done.predict(images, client=int(number)))
        assert done.model(client=number)
    (done.path / "rounds.csv").write_bytes(b"")
    (done.path / "clients.csv").write_bytes(b"round,\xff\n")
    for use, words in (
        (lambda: done.predict(images[:0]), "the data have no images"),
        (lambda: done.predict(images, client="0"), "client is '0'; the clients of this run are 0"),
        (lambda: done.predict(images, client=True), "client is True; the clients of this run"),
        (lambda: done.predict(images, client=1.0), "client is 1.0; the clients of this run"),
        (lambda: done.predict(images, shown="tails"), "shown: no such option; allowed are show"),
        (lambda: done.predict(images, label_key="x"), "label-key is an option of runs on points"),
        (lambda: curvfed.load(3), "path is an int; allowed is the path or the name of a run"),
        (lambda: done.rounds, "rounds.csv cannot be read"),
        (lambda: done.clients, "clients.csv cannot be read"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            use()


def test_a_damaged_summary_is_no_run_without_an_end(tmp_path):
    (tmp_path / "summary.json").write_text('{"status": "compl')
    with pytest.raises(ValueError, match=r"summary\.json is damaged"):
        _ = curvfed.load(tmp_path).summary

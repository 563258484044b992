"""One place decides what a path is: `check` prints it with the reason, a run asks once, and data
that are unfit are refused in words of their own kind."""

import re

import numpy as np
import pytest
import torch
from absent_extensions import needs_tables
from torch_geometric.data import Data

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.arguments import read_request
from curvfed.deployments.commands.command import main
from curvfed.tasks.formats import FORMATS, decide


def table(path, *lines):
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def folder_of(path, *names):
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()
    return path


@pytest.mark.parametrize("name", ["names.csv", "names.tsv"])
@pytest.mark.parametrize("method", ["hull", "fedavg", "flatland"])
@needs_tables
def test_a_table_of_one_column_is_no_points(name, method, own_home, tmp_path, capsys):
    path = table(tmp_path / name, "name", "cat", "dog", "bird")
    assert main(["check", f"method={method}", f"dataset={path}", "num-supernodes=2"]) == 2
    error = capsys.readouterr().err
    assert "it has a single column, or no comma, semicolon or tab separates its columns" in error
    titles = [form.title for form in FORMATS if {"nodes", "graphs"} & {*form.tasks}]
    assert [title for title in titles if title not in error] == []
    assert re.search(r"points \.npz or .* files of two coordinates and a class", error)
    assert "is read as points" not in error
    table(path, "x;y;label", "0.1;0.2;a", "0.2;0.1;b")
    assert decide(path).tasks == ("points",)


def test_check_says_what_the_contents_of_a_file_decide(own_home, tmp_path, capsys):
    """It left open whether the file holds nodes or graphs."""
    graph = Data(
        x=torch.randn(40, 3),
        y=torch.arange(40) % 2,
        edge_index=torch.arange(80).reshape(2, 40) % 40,
    )
    torch.save(graph, tmp_path / "one.pt")
    torch.save(
        [Data(x=graph.x, edge_index=graph.edge_index, y=k % 2) for k in range(9)],
        tmp_path / "all.pt",
    )
    for name, kind in {"one": "nodes", "all": "graphs"}.items():
        words = ["check", "method=fedavg", f"dataset={tmp_path / name}.pt", "num-supernodes=1"]
        assert main(words) == 0
        expected = f"{name}.pt: {kind} (it ends in .pt; its contents decide)"
        assert expected in capsys.readouterr().out.splitlines()


def notes_of(capsys, *words):
    assert main(["check", "num-supernodes=2", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if line.startswith(("note: client 0", "note: clients 0"))]


def test_the_classes_of_a_client_are_counted(own_home, capsys):
    words = ["method=fedavg", "dataset=digits", "alpha=0.01", "num-supernodes=6"]
    assert main(["check", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = {}
    for line in lines:
        if numbers := re.match(r"client (\d) of 6: .*, (\d+)(?: of 10)? classes; ", line):
            counts[numbers[1]] = int(numbers[2])
    assert len(counts) == 6
    assert len({*counts.values()}) > 2
    config = read_request(words).config
    for client, number in counts.items():
        data = load_data(config, Node(partition=int(client), num_partitions=6))
        assert number == len(set(data.labels.tolist()))


def test_the_spread_over_clients_counts_those_without_a_line(own_home, capsys):
    words = ["method=fedavg", "dataset=digits", "alpha=0.1", "num-supernodes=12"]
    assert main(["check", *words]) == 0
    text = capsys.readouterr().out
    assert "\nclient 9 of 12: " in text
    assert "\n… 2 more\n" in text
    assert "\nclient 10 of 12: " not in text
    config = read_request(words).config
    clients = [load_data(config, Node(partition=p, num_partitions=12)) for p in range(12)]
    sizes = np.quantile([int(data.train.sum()) for data in clients], [0, 0.5, 1])
    classes = np.quantile([len(set(data.labels.tolist())) for data in clients], [0, 0.5, 1])
    spread = re.search(r"12 clients: training examples (.*); classes (.*)", text)
    for numbers, values in zip(spread.groups(), (sizes, classes), strict=True):
        assert [float(number) for number in numbers.split(", ")] == values.tolist()


def test_points_whose_test_part_the_server_has_promise_no_personal_scores(own_home, capsys):
    assert main(["check", "method=fedavg", "dataset=uniform", "num-supernodes=3"]) == 0
    assert "personal scores" not in capsys.readouterr().out


def test_a_graph_without_edges_is_noted(own_home, tmp_path, capsys):
    graph = Data(
        x=torch.randn(40, 3), y=torch.arange(40) % 2, edge_index=torch.zeros(2, 0, dtype=torch.long)
    )
    torch.save(graph, tmp_path / "graph.pt")
    notes = notes_of(
        capsys, "method=fedavg", f"dataset={tmp_path / 'graph.pt'}", "partition=random"
    )
    assert notes == ["note: clients 0, 1 (of 2 checked): there are no edges"]

"""What `curvfed curvature` measures, writes and refuses."""

import json

import networkx as nx
import numpy as np
import pytest
import torch
from graph_fixtures import write_user_graph

from curvfed.deployments.commands.command import main
from curvfed.extensions.curvature.commands.graphs import GraphCurvature, common, sentences
from curvfed.extensions.curvature.distortion import Fit


@pytest.fixture(autouse=True)
def alone(own_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def test_each_client_is_measured_and_drawn(tmp_path, capsys):
    write_user_graph(tmp_path / "mine.pt")
    words = ["dataset=mine.pt", "num-supernodes=2", "--dimensions", "2,3", "--nodes", "12"]
    assert main(["curvature", *words, "--to", "out"]) == 0
    printed, progress = capsys.readouterr()
    assert progress.splitlines() == [f"{number} of 2 clients measured" for number in (1, 2)]
    assert "…" not in printed
    for dim in (2, 3):
        assert f"In {dim} dimensions, the mean distortion is " in " ".join(printed.split())
        for suffix in ("png", "svg"):
            assert (tmp_path / "out" / f"curvature-{dim}.{suffix}").exists()
    summaries = json.loads((tmp_path / "out" / "curvature.json").read_text())
    assert list(summaries) == ["2", "3"]
    assert summaries["3"]["graphs"] == 2
    assert summaries["3"]["own"] <= summaries["3"]["flat"]
    page = (tmp_path / "out" / "curvature.html").read_text()
    assert page.count("<svg") == 2
    assert "In 3 dimensions" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset=digits"], "is read as images, but curvfed curvature measures graphs"),
        (["dataset=digits", "method=fedavg"], "the data are images"),
        (["dataset=trees", "--dimensions", "two"], "allowed are whole numbers"),
        (["dataset=trees", "--dimensions", "0"], "allowed are whole numbers"),
        (["dataset=trees", "--dimensions", "900"], "more than 900 nodes"),
        (["dataset=coar"], "coar"),
        (["dataset=trees", "method=links"], "whose edges are no hierarchy"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, message, capsys):
    assert main(["curvature", "num-supernodes=2", *words]) == 2
    captured = capsys.readouterr()
    assert message in " ".join((captured.out + captured.err).split())


@pytest.mark.parametrize("to", ["a-file", "a-file/below/it", "n" * 300])
def test_a_folder_that_cannot_be_written_is_refused_before_the_measurement(to, tmp_path, capsys):
    write_user_graph(tmp_path / "mine.pt")
    (tmp_path / "a-file").write_text("")
    assert main(["curvature", "dataset=mine.pt", "num-supernodes=2", "--to", to]) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert "measured" not in said
    assert f'--to is "{to}", which cannot be made or written' in " ".join(said.split())


def test_refused_data_leave_no_folder(tmp_path, capsys):
    words = ["dataset=trees", "num-supernodes=2", "--dimensions", "900", "--to", "out"]
    assert main(["curvature", *words]) == 2
    assert not (tmp_path / "out").exists()


def graph(
    client: int, forman: float, curvature: float, curve: dict[float, float]
) -> GraphCurvature:
    lowest = min(curve.values())
    fits = {2: Fit(curvature, lowest, lowest, curve[0.0], 0.5, curve)}
    return GraphCurvature(client, 9, 9, 4.0, forman, 0.0, 0.0, fits)


def test_own_curvature_is_set_beside_the_best_common_one_and_flat_space():
    graphs = [
        graph(0, -1.0, -0.1, {-4.0: 0.5, -1.0: 0.4, -0.1: 0.1, 0.0: 0.3}),
        graph(1, -2.0, -1.0, {-1.5: 0.4, -1.0: 0.2, -0.1: 0.25, 0.0: 0.3}),
        graph(2, -3.0, -1.0, {-2.0: 0.3, -1.0: 0.2, -0.1: 0.28, 0.0: 0.205}),
    ]
    assert common(graphs, 2) == (-0.1, pytest.approx(0.21))
    first, second, third = sentences(graphs, 2)
    for figure in ("16.7%", "21.0%", "(−0.100)", "26.8%"):
        assert figure in first
    assert second.endswith("2 of 3 graphs.")
    # Ranks 3, 2, 1 and 3, 1.5, 1.5.
    expected = np.corrcoef([3, 2, 1], [3, 1.5, 1.5])[0, 1]
    assert f"is {expected:.2f}." in third
    assert len(sentences(graphs[:1], 2)) == 2
    tree = graph(0, -1.0, -30.0, {-30.0: 0.1, 0.0: 0.3})
    assert "of 1 of 1 clients is the most negative" in sentences([tree], 2)[2]


def test_a_common_curvature_without_a_gain_is_0_as_the_clients_own_are():
    graphs = [graph(number, 0.0, 0.0, {0.0: 0.0144, 0.01: 0.0135}) for number in range(2)]
    assert common(graphs, 2) == (0.0, pytest.approx(0.0144))


def test_a_lattice_of_the_plane_is_not_called_curved(tmp_path, capsys):
    lattice = nx.convert_node_labels_to_integers(nx.triangular_lattice_graph(5, 8))
    edges = torch.tensor([*lattice.to_directed().edges]).T
    labels = torch.arange(len(lattice)) % 2
    write_user_graph(tmp_path / "lattice.pt", x=torch.eye(len(lattice)), y=labels, edge_index=edges)
    words = ["dataset=lattice.pt", "num-supernodes=1", "--dimensions", "2"]
    assert main(["curvature", *words]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Curved, by a gain of more than 1 point over flat space: 0 of 1 graphs." in printed


def test_several_files_and_absent_ones_are_refused(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("cat\tmammal\n")
    (tmp_path / "b.tsv").write_text("dog\tmammal\n")
    assert main(["curvature", "a.tsv", "b.tsv"]) == 2
    assert "allowed is one data set" in capsys.readouterr().err
    assert main(["curvature", "absent.tsv"]) == 2
    assert "absent.tsv" in (said := capsys.readouterr().err)
    assert "preset" not in said

"""What `curvfed curvature` measures, writes and refuses."""

import json

import networkx as nx
import numpy as np
import pytest
import torch
from graph_fixtures import write_user_graph
from scipy.stats import linregress, t

from curvfed.deployments.commands.command import main
from curvfed.deployments.curvature import GraphCurvature, common, sentences
from curvfed.extensions.links.commands.expectation import MeasuredGain, measured_gain, sentence
from curvfed.extensions.links.hierarchy import Hierarchy
from curvfed.geometry.distortion import Fit


@pytest.fixture(autouse=True)
def alone(own_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def test_each_client_is_measured_and_drawn(tmp_path, capsys):
    write_user_graph(tmp_path / "mine.pt")
    words = ["dataset=mine.pt", "num-supernodes=2", "--dimensions", "2,3", "--nodes", "12"]
    assert main(["curvature", *words, "--to", "out"]) == 0
    printed = capsys.readouterr().out
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
    assert page.count("<img") == 2
    assert "In 3 dimensions" in page


@pytest.mark.parametrize(
    ("words", "told"),
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
def test_what_cannot_be_measured_is_refused(words, told, capsys):
    assert main(["curvature", "num-supernodes=2", *words]) == 2
    captured = capsys.readouterr()
    assert told in " ".join((captured.out + captured.err).split())


def graph(
    client: int, forman: float, curvature: float, curve: dict[float, float]
) -> GraphCurvature:
    least = min(curve.values())
    fits = {2: Fit(curvature, least, least, curve[0.0], 0.5, curve)}
    return GraphCurvature(client, 9, 9, 4.0, forman, 0.0, 0.0, fits)


def test_own_curvature_is_set_beside_the_best_common_one_and_flat_space():
    graphs = [
        graph(0, -1.0, -0.1, {-4.0: 0.5, -1.0: 0.4, -0.1: 0.1, 0.0: 0.3}),
        graph(1, -2.0, -1.0, {-1.5: 0.4, -1.0: 0.2, -0.1: 0.25, 0.0: 0.3}),
        graph(2, -3.0, -1.0, {-2.0: 0.3, -1.0: 0.2, -0.1: 0.28, 0.0: 0.205}),
    ]
    assert common(graphs, 2) == (-0.1, pytest.approx(0.21))
    first, second, third = sentences(graphs, 2)
    assert first == (
        "In 2 dimensions, the mean distortion is 16.7% with each client's own curvature, 21.0%"
        " with the best common one (−0.100), and 26.8% in flat space."
    )
    assert second == "Curved, by a gain of more than 1 point over flat space: 2 of 3 graphs."
    # Ranks 3, 2, 1 and 3, 1.5, 1.5.
    expected = np.corrcoef([3, 2, 1], [3, 1.5, 1.5])[0, 1]
    assert f"is {expected:.2f}." in third
    assert len(sentences(graphs[:1], 2)) == 2
    tree = graph(0, -1.0, -30.0, {-30.0: 0.1, 0.0: 0.3})
    assert sentences([tree], 2)[2] == (
        "The own curvature of 1 of 1 clients is the most negative that was tried, as for a tree."
    )


def test_a_lattice_of_the_plane_is_not_called_curved(tmp_path, capsys):
    lattice = nx.convert_node_labels_to_integers(nx.triangular_lattice_graph(5, 8))
    edges = torch.tensor([*lattice.to_directed().edges]).T
    labels = torch.arange(len(lattice)) % 2
    write_user_graph(tmp_path / "lattice.pt", x=torch.eye(len(lattice)), y=labels, edge_index=edges)
    words = ["dataset=lattice.pt", "num-supernodes=1", "--dimensions", "2"]
    assert main(["curvature", *words]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Curved, by a gain of more than 1 point over flat space: 0 of 1 graphs." in printed


def write_links(path, links):
    path.write_text("".join(f"{head}\t{tail}\n" for head, tail in links))


def test_the_expected_gain_of_a_hierarchy_is_printed(tmp_path, capsys):
    links = [
        ("cat", "mammal"),
        ("cat", "pet"),
        ("dog", "pet"),
        ("dog", "mammal"),
        ("pet", "animal"),
    ]
    write_links(tmp_path / "animals.tsv", [*links, ("mammal", "animal"), ("cat", "animal")])
    assert main(["curvature", "animals.tsv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "│ links │ 5 │ 7 │ 6 │ 40.0% │" in printed
    expected = f"{measured_gain().expected(40.0)[0]:+.1f}".replace("-", "−")
    assert "40% of the entities have several direct parents. Expected gain" in printed
    assert f"the best flat score: {expected} points" in printed


def test_a_measured_gain_is_set_beside_the_expected_one():
    shape = Hierarchy(
        "", entities=10, links=9, direct=9, several_parents=0.1, ancestors=2.0, in_cycles=0
    )
    _, low, high = measured_gain().expected(10.0)
    for gain, place in ((low - 0.1, "outside"), (low + 0.1, "within"), (high + 0.1, "outside")):
        assert f", {place} this interval." in sentence([shape], gain)
    assert "this interval" not in sentence([shape])


def test_a_share_beyond_the_measured_ones_is_named():
    shape = Hierarchy(
        "", entities=10, links=9, direct=9, several_parents=0.95, ancestors=2.0, in_cycles=0
    )
    largest = f"{measured_gain().largest_share:.0f}%"
    assert f"No hierarchy with more than {largest} was measured." in sentence([shape])


def test_a_hierarchy_smaller_than_the_measured_ones_is_named(tmp_path, capsys):
    write_links(tmp_path / "pair.tsv", [("cat", "mammal")])
    assert main(["curvature", "pair.tsv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    fewest = measured_gain().fewest_entities
    assert f"None of these hierarchies had fewer than {fewest} entities" in printed
    large = Hierarchy(
        "", entities=fewest, links=600, direct=9, several_parents=0.1, ancestors=2, in_cycles=0
    )
    assert "fewer than" not in sentence([large])


def test_columns_in_another_order_are_noted(tmp_path, capsys):
    names = [f"n{number}" for number in range(40)]
    lines = [f"{head}\t{tail}\tis\n" for head, tail in zip(names[1:], names, strict=False)]
    (tmp_path / "turned.tsv").write_text("".join(lines))
    assert main(["curvature", "turned.tsv"]) == 0
    assert "relations have names of entities" in " ".join(capsys.readouterr().out.split())


def test_several_files_and_absent_ones_are_refused(tmp_path, capsys):
    write_links(tmp_path / "a.tsv", [("cat", "mammal")])
    write_links(tmp_path / "b.tsv", [("dog", "mammal")])
    assert main(["curvature", "a.tsv", "b.tsv"]) == 2
    assert "allowed is one data set" in capsys.readouterr().err
    assert main(["curvature", "absent.tsv"]) == 2
    assert "absent.tsv" in (said := capsys.readouterr().err)
    assert "preset" not in said


def test_links_in_a_cycle_have_no_expectation(tmp_path, capsys):
    write_links(tmp_path / "ring.tsv", [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])
    assert main(["curvature", "ring.tsv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 of 4 entities are above themselves" in printed
    assert "Expected gain" not in printed


def test_the_expected_gain_is_the_prediction_of_a_regression():
    rng = np.random.default_rng(3)
    shares = rng.uniform(0, 60, 9)
    gains = 7 - 0.2 * shares + rng.normal(0, 2, 9)
    line = linregress(shares, gains)
    rest = gains - line.intercept - line.slope * shares
    gain = MeasuredGain(
        hierarchies=9,
        at_zero=line.intercept,
        per_point=line.slope,
        deviation=float(np.sqrt(np.sum(rest**2) / 7)),
        mean_share=float(shares.mean()),
        largest_share=60.0,
        fewest_entities=500,
        spread=float(np.sum((shares - shares.mean()) ** 2)),
    )
    # The oracle: least squares with the design matrix.
    design = np.column_stack([np.ones(9), shares])
    point = np.array([1.0, 35.0])
    coefficients = np.linalg.lstsq(design, gains)[0]
    variance = np.sum((gains - design @ coefficients) ** 2) / 7
    error = np.sqrt(variance * (1 + point @ np.linalg.inv(design.T @ design) @ point))
    half = t.ppf(0.975, 7) * error
    mean = point @ coefficients
    assert gain.expected(35.0) == pytest.approx((mean, mean - half, mean + half))

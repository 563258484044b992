"""What `curvfed curvature` says of hierarchies."""

import shlex

import pytest

from curvfed.deployments.commands.command import main
from curvfed.extensions.links.commands.expectation import measured_gain, measured_reconstruction
from curvfed.tasks.plugins import additions

pytestmark = pytest.mark.skipif(
    "curvature" not in additions("commands"),
    reason="`curvfed curvature` is of the extension `curvature`, which this copy lacks",
)


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


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
    out = capsys.readouterr().out
    printed = " ".join(out.split())
    assert "│ links │ 5 │ 7 │ 6 │ 40.0% │" in printed
    expected = f"{measured_gain().expected(40.0)[0]:+.1f}".replace("-", "−")
    assert "40% of the entities have several direct parents. On" in printed
    assert f"curvature −1 gains {expected} points" in printed
    most = f"{measured_reconstruction().most:+.1f}"
    assert f"to {most} points of mean average precision on 7 hierarchies" in printed
    assert "\ncurvfed compare dataset=animals.tsv methods=links,links-inner,links-squared\n" in out


def test_the_command_that_measures_has_the_number_of_clients_and_the_folder(tmp_path, capsys):
    write_links(tmp_path / "tree.tsv", [(f"n{node}", f"n{node // 2}") for node in range(1, 63)])
    folder = str(tmp_path / "my data")
    assert main(["curvature", "tree.tsv", "num-supernodes=3", f"data-dir={folder}"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    pairs = shlex.split(last)[2:]
    assert {"dataset=tree.tsv", "num-supernodes=3", f"data-dir={folder}"} <= {*pairs}


def test_columns_in_another_order_are_noted(tmp_path, capsys):
    names = [f"n{number}" for number in range(40)]
    lines = [f"{head}\t{tail}\tis\n" for head, tail in zip(names[1:], names, strict=False)]
    (tmp_path / "turned.tsv").write_text("".join(lines))
    assert main(["curvature", "turned.tsv"]) == 0
    assert "relations have names of entities" in " ".join(capsys.readouterr().out.split())


def test_notes_are_on_all_links_not_on_those_of_the_first_client(tmp_path, capsys):
    # A part of the chain has links to the next node alone, all links have some to the one after it.
    links = [(f"n{node}", f"n{node - 1}") for node in range(1, 150)]
    links += [(f"n{node}", f"n{node - 2}") for node in range(30, 150, 30)]
    write_links(tmp_path / "chain.tsv", links)
    assert main(["curvature", "chain.tsv"]) == 0
    assert "direct parents alone" not in capsys.readouterr().out


def test_links_in_a_cycle_have_no_expectation(tmp_path, capsys):
    write_links(tmp_path / "ring.tsv", [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])
    assert main(["curvature", "ring.tsv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 of 4 entities are above themselves" in printed
    assert "people made" not in printed

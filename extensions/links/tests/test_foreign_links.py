"""Files of other tools with links: refused, with lines that make tables of them."""

import json
import pathlib

import networkx
import pytest
from errors import refuses

from curvfed.extensions.links.foreign import FILES
from curvfed.tasks.registry import tasks_of


@pytest.mark.parametrize("ending", FILES)
def test_every_ending(tmp_path, ending):
    path = tmp_path / f"it{ending.upper()}"
    path.touch()
    with refuses("foreign-format"):
        tasks_of(str(path))


def test_graphs_of_networkx_are_reported_how_to_become_links(tmp_path, monkeypatch):
    graph = networkx.DiGraph([("a", "b"), ("c", "b")])
    networkx.write_graphml(graph, tmp_path / "a.graphml")
    networkx.write_gml(graph, tmp_path / "a.gml")
    networkx.write_edgelist(graph, tmp_path / "a.edgelist")
    (tmp_path / "a.json").write_text(json.dumps(networkx.node_link_data(graph)))
    monkeypatch.chdir(tmp_path)
    for name in ("a.graphml", "a.gml", "a.edgelist", "a.json"):
        with refuses("foreign-format", name, "networkx") as caught:
            tasks_of(f"./{name}")
        code = str(caught.value).partition("links: ")[2].replace(", then ", "\n")
        names = {"networkx": networkx, "json": json, "pathlib": pathlib, "PATH": tmp_path / name}
        exec(code, names)
        assert (tmp_path / "links.tsv").read_text() == "a\tb\nc\tb\n"
        assert tasks_of("./links.tsv") == ("links",)


def test_triples_of_rdf_are_reported_how_to_become_links(tmp_path):
    (tmp_path / "a.nt").write_text("<http://x/a> <http://x/is> <http://x/b> .\n")
    with refuses("foreign-format", "RDF", "rdflib"):
        tasks_of(str(tmp_path / "a.nt"))

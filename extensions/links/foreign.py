"""Files and folders of other tools with links: their kinds, and the lines of Python that make
tables of them."""

import re
from pathlib import Path

from curvfed.extensions.links.tables import FILES_HINT, missing_part

_NODE_LINK = re.compile(rb'\s*\{\s*"(directed|multigraph|graph|nodes|links)"')
"""The beginning of a file of nodes and links."""

_NETWORKS = {
    ".graphml": ("a GraphML file", "read_graphml(PATH)"),
    ".gml": ("a GML file", "read_gml(PATH)"),
    ".gexf": ("a GEXF file", "read_gexf(PATH)"),
    ".net": ("a Pajek file", "read_pajek(PATH)"),
    ".edgelist": ("an edge list", "read_edgelist(PATH, create_using=networkx.DiGraph)"),
    ".json": (
        "a node-link JSON file",
        "node_link_graph(json.loads(pathlib.Path(PATH).read_text()))",
    ),
}
NETWORKS = {
    ending: (
        f"{kind} of networkx or Gephi",
        f"write its edges as a table of links: graph = networkx.{reader}, then"
        ' networkx.write_edgelist(graph, "links.tsv", delimiter="\\t", data=False)',
    )
    for ending, (kind, reader) in _NETWORKS.items()
}
"""Kinds of graphs by the end of their names, with the lines that make links of them."""

TRIPLES = (
    "a file of RDF",
    'write its triples as .tsv: triples = rdflib.Graph().parse(PATH), then csv.writer(open("links'
    '.tsv", "w"), delimiter="\\t").writerows((head, relation, tail) for head, relation, tail in'
    " triples)",
)

FILES = {**NETWORKS, **dict.fromkeys((".nt", ".ttl", ".owl", ".rdf"), TRIPLES)}
"""Kinds of files by the end of their names, with the data to give instead."""

_TO_TABLES = "; Python makes tables of it here, or in the folder links:\n"

FOLDERS = {
    "entity2id.txt": (
        "a folder of OpenKE",
        f"{FILES_HINT}{_TO_TABLES}"
        "read = lambda name: [line.split() for line in open(name)][1:]; e, r = (dict(pair[::-1] for"
        " pair in read(f'{kind}2id.txt')) for kind in ('entity', 'relation'))\n"
        "for part in ('train', 'valid', 'test'): open(part + '.tsv', 'w').writelines(f'{e[h]}\\t"
        "{r[k]}\\t{e[t]}\\n' for h, t, k in read(part + '2id.txt'))",
    ),
    "entity_ids.del": (
        "a folder of LibKGE",
        f"{FILES_HINT}{_TO_TABLES}"
        "read = lambda name: [line.strip().split('\\t') for line in open(name)]; e, r ="
        " (dict(read(f'{kind}_ids.del')) for kind in ('entity', 'relation'))\n"
        "for part in ('train', 'valid', 'test'): open(part + '.tsv', 'w').writelines(f'{e[h]}\\t"
        "{r[k]}\\t{e[t]}\\n' for h, k, t in read(part + '.del'))",
    ),
    "split/*/train.pt": (
        "a folder of links of the Open Graph Benchmark",
        f"{FILES_HINT}{_TO_TABLES}"
        "import glob, os, torch; from pathlib import Path; os.makedirs('links', exist_ok=True)\n"
        "for file in glob.glob('split/*/*.pt'): d = torch.load(file, weights_only=False); names ="
        " [name for name in ('head', 'relation', 'tail', 'source_node', 'target_node') if name in"
        " d]; rows = zip(*(d[name] for name in names)) if names else d['edge'];"
        " Path('links', Path(file).stem + '.tsv').write_text(''.join('\\t'.join(str(int(n)) for n"
        " in row) + '\\n' for row in rows))",
    ),
}
"""Folders by a file in them."""


PARTS_HINT = (
    "allowed are tables called train, valid and test, train and one of the others, or one table of"
    " links alone, given by its own path"
)


def foreign(path: Path) -> tuple[str, str] | None:
    """The kind of a file or folder of another tool, and the data to give instead; None for
    others."""
    if path.is_dir():
        kind = next((FOLDERS[name] for name in FOLDERS if any(path.glob(name))), None)
        missing = missing_part(path)
        if kind is None and missing:
            return f"a folder of links in which {missing}", PARTS_HINT
        return kind
    ending = path.suffix.lower()
    if ending == ".json":
        return NETWORKS[ending] if _is_node_link(path) else None
    return FILES.get(ending)


def _is_node_link(path: Path) -> bool:
    """Whether a JSON file begins as networkx and D3 write nodes and links."""
    try:
        with path.open("rb") as file:
            return bool(_NODE_LINK.match(file.read(100)))
    except OSError:
        return False

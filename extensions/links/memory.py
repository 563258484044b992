"""Links that Python holds: tables, rows of names, graphs of networkx and of PyTorch Geometric."""

from numbers import Integral, Number
from typing import Any

from curvfed.extensions.links.raw import RawLinks, raw_links
from curvfed.extensions.links.readers import edge_links
from curvfed.extensions.links.tables import ROLES, columns_of, plain_numbers, table
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.user_file import graph_fields


def links_in_memory(where: str, item: Any, reads_graphs: bool = False) -> RawLinks | None:
    """The links of an object; None for other objects.

    Parameters
    ----------
    where : str
        The name of the data in error texts.
    item : object
        See `files.memory_hint` of `curvfed.extensions.links.kind.KIND`. An undirected graph has
        each link in both directions.
    reads_graphs : bool
        Whether the edges of a graph with features and classes are links.

    Raises
    ------
    DataError
        If links are missing, or a name is empty.
    """
    if reads_graphs and (isinstance(item, dict) or hasattr(item, "stores")):
        return edge_links(where, graph_fields(where, item))
    if hasattr(item, "itertuples"):
        table_of_names = item.astype(str).mask(item.isna(), "")
        cells = (item.columns, *table_of_names.itertuples(index=False))
        rows = [list(map(str, row)) for row in cells]
        lines = list(enumerate(rows, 1))
        if not columns_of(lines):
            return None
        links, history = table(where, lines)
        body = links if history else links[1:]
        rows = [row for _, row in body]
        numbered = plain_numbers(rows, lambda position: f"{where}, link {position + 1}")
        return raw_links(where, numbered, history=history)
    if hasattr(item, "to_directed"):
        keys = {"keys": True} if item.is_multigraph() else {}
        edges = item.to_directed().edges(data=True, **keys)
        return raw_links(where, [_named_edge(*edge) for edge in edges])
    if getattr(item, "ndim", 0) == 2:
        item = item.tolist()
    if not _are_rows(item):
        return None
    for number, row in enumerate(item, 1):
        if len(row) not in (2, 3) or not all(isinstance(cell, str | Integral) for cell in row):
            raise DataError(
                f"{where}, link {number}: it is no pair (head, tail) and no triple (head, relation,"
                " tail) of names or whole numbers",
                key="link-names",
            )
    return raw_links(where, [list(map(str, row)) for row in item])


def _named_edge(head: object, tail: object, *further: Any) -> tuple[str, str, str]:
    """Head, relation and tail of an edge of networkx with its key, if any, and its attributes. The
    relation is an attribute with a usual name, or a key that is text."""
    *keys, attributes = further
    relations = [value for name, value in attributes.items() if ROLES.get(name) == "relation"]
    relations += [key for key in keys if isinstance(key, str)]
    return str(head), str(relations[0]) if relations else "", str(tail)


def _are_rows(item: object) -> bool:
    """Whether an object is a list of rows of names, or of whole numbers; some may be unfit."""
    if not isinstance(item, list | tuple) or not item:
        return False
    if not all(isinstance(row, list | tuple) for row in item):
        return False
    cells = [cell for row in item for cell in row]
    are_single = all(isinstance(cell, str | Number | None) for cell in cells)
    are_whole = all(isinstance(cell, Integral) for cell in cells)
    return are_single and (are_whole or any(isinstance(cell, str) for cell in cells))

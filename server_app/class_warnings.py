"""Warnings about the classes of clients with data of their own: names that differ between sites, and too many classes."""

from collections.abc import Iterable

from curvfed.server_app.federation import Federation
from curvfed.tasks.class_names import alike, placeholders, row_of

SHOWN = 5
"""The most classes that a sentence names."""

FEWEST = 20
"""Training examples below which each may be of a class of its own."""


def of_one_client(federation: Federation) -> str:
    """The classes that a single client has, and what they may be called at the others; "" if there are none."""
    holders: dict[tuple[str, str], list[int]] = {}
    own = {partition: about for partition, about in federation.descriptions.items() if not about.partition_digest}
    for partition, about in sorted(own.items()):
        for name in about.class_names:
            holders.setdefault((about.space, name), []).append(partition)
    spelled: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key in holders:
        spelled.setdefault((key[0], alike(key[1])), []).append(key)
    listed = {}
    for (space, name), clients in holders.items():
        if len(own) > 1 and len(clients) == 1:
            others = [key for key in spelled[space, alike(name)] if not set(holders[key]) & set(clients)]
            match = f', perhaps "{others[0][1]}" of client {holders[others[0]][0]}' if others else ""
            listed[f'client {clients[0]} "{name}"{match}'] = not match
    if not listed:
        return ""
    more = f"; … {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    first = sorted(listed, key=lambda text: listed[text])[:SHOWN]  # those that match before the others
    return (
        f"a single client has these classes: {'; '.join(first)}{more}. Nobody else learns them, nor is scored on them; "
        "write names of one class in the same way at every site"
    )


def unlabelled(federation: Federation) -> str:
    """The classes whose names say that there is no class."""
    names = placeholders(federation.facts.class_names)
    if not names:
        return ""
    return (
        f"these are trained and scored as classes: {row_of(names[:SHOWN])}. Leave the label empty where none is known; "
        "points.classes names the classes to keep"
    )


def crowded(federation: Federation, sizes: Iterable[int | None]) -> str:
    """Nearly as many classes as training examples, which are rather names of examples, or measurements."""
    known, classes = [size for size in sizes if size is not None], len(federation.facts.class_names)
    if len(known) < len(federation.descriptions) or sum(known) < FEWEST or 2 * classes <= sum(known):
        return ""
    return f"there are {classes} classes for {sum(known)} training examples: look at what the labels of the data are"

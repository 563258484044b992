"""Warnings about the classes of clients with data of their own: names that differ between sites,
and too many classes."""

from collections import defaultdict
from collections.abc import Collection

from curvfed.server_app.federation import Federation
from curvfed.tasks.class_names import alike, placeholders, row_of

SHOWN = 5
"""The most classes that a sentence names."""

FEWEST = 20
"""Training examples below which each may be of a class of its own."""


def of_one_client(federation: Federation) -> str:
    """The classes that a single client has, and what they may be called at the others; "" if there
    are none."""
    holders = defaultdict(list)
    own = {
        partition: about
        for partition, about in federation.descriptions.items()
        if not about.partition_digest
    }
    for partition, about in sorted(own.items()):
        for name in about.class_names:
            holders[name].append(partition)
    spellings = defaultdict(list)
    for name in holders:
        spellings[alike(name)].append(name)
    matched = []
    others = []
    for name, (client, *more) in holders.items():
        if more or len(own) == 1:
            continue
        match = next(
            (other for other in spellings[alike(name)] if client not in holders[other]), ""
        )
        if match:
            matched.append(
                f'client {client} "{name}", perhaps "{match}" of client {holders[match][0]}'
            )
        else:
            others.append(f'client {client} "{name}"')
    listed = matched + others
    if not listed:
        return ""
    if len(listed) > SHOWN:
        listed[SHOWN:] = [f"… {len(listed) - SHOWN} more"]
    return (
        f"a single client has these classes: {'; '.join(listed)}. Nobody else learns them, nor is"
        " scored on them; write names of one class in the same way at every site"
    )


def unlabelled(federation: Federation) -> str:
    """The classes whose names say that there is no class."""
    names = placeholders(federation.facts.class_names)
    if not names:
        return ""
    return (
        f"these are trained and scored as classes: {row_of(names[:SHOWN])}. Leave the label empty"
        " where none is known; points.classes names the classes to keep"
    )


def crowded(num_classes: int, sizes: Collection[int | None]) -> str:
    """Nearly as many classes as training examples, which are rather names of examples, or
    measurements."""
    known = [size for size in sizes if size is not None]
    count = sum(known)
    if len(known) < len(sizes) or count < FEWEST or 2 * num_classes <= count:
        return ""
    return (
        f"there are {num_classes} classes for {count} training examples: look at what the labels of"
        " the data are"
    )

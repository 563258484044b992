"""Warnings about the classes of clients with data of their own: names that differ between sites,
and too many classes."""

from collections import defaultdict
from collections.abc import Collection

from curvfed.server_app.federation import Federation
from curvfed.tasks.class_names import alike, placeholders, row_of

SHOWN = 5
"""Largest number of classes that a sentence names."""

FEWEST = 20
"""Minimum number of training examples of the check; fewer may each have a class of their own."""


def of_one_client(federation: Federation) -> str:
    """The classes that a single client has, with similar names of other clients; "" for none."""
    holders = defaultdict(list)
    own_data = {
        partition: description
        for partition, description in federation.descriptions.items()
        if not description.partition_digest
    }
    for partition, description in sorted(own_data.items()):
        for name in description.class_names:
            holders[name].append(partition)
    spellings = defaultdict(list)
    for name in holders:
        spellings[alike(name)].append(name)
    matched = []
    unmatched = []
    for name, (client, *further) in holders.items():
        if further or len(own_data) == 1:
            continue
        match = next(
            (spelling for spelling in spellings[alike(name)] if client not in holders[spelling]), ""
        )
        if match:
            matched.append(
                f'client {client} "{name}", perhaps "{match}" of client {holders[match][0]}'
            )
        else:
            unmatched.append(f'client {client} "{name}"')
    listed = matched + unmatched
    if not listed:
        return ""
    if len(listed) > SHOWN:
        listed[SHOWN:] = [f"… {len(listed) - SHOWN} more"]
    return (
        f"a single client has these classes: {'; '.join(listed)}. Nobody else learns them, nor is"
        " scored on them; write names of one class in the same way at every site"
    )


def unlabelled(federation: Federation) -> str:
    """The classes whose names are placeholders for a missing label."""
    names = placeholders(federation.facts.class_names)
    if not names:
        return ""
    return (
        f"these are trained and scored as classes: {row_of(names[:SHOWN])}. Leave the label empty"
        " where none is known; points.classes names the classes to keep"
    )


def crowded(num_classes: int, sizes: Collection[int | None]) -> str:
    """More than half as many classes as training examples: probably names of examples or
    measurements."""
    shared = [size for size in sizes if size is not None]
    count = sum(shared)
    if len(shared) < len(sizes) or count < FEWEST or 2 * num_classes <= count:
        return ""
    return (
        f"there are {num_classes} classes for {count} training examples: look at what the labels of"
        " the data are"
    )

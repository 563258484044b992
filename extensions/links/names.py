"""The names of entities and relations that a client states, and of embeddings."""

from collections.abc import Sequence

RELATION = "→ "
"""Beginning of the name of a relation among the names that a client states."""

INVERSE = "inverse of "
"""Beginning of the name of an inverse relation in questions to a finished run."""

SPACE_MODELS = ("normal", "hyperboloid")
"""The embeddings with points of a space as rows, by the names of their coordinates. Their scores do
not depend on the relation, unless links.relations gives each an operator."""


def stated_names(entities: Sequence[str], relations: Sequence[str]) -> tuple[str, ...]:
    """The names that a client states: entities, then relations, unless no link has a name of its
    relation."""
    stated = relations if any(relations) else ()
    return (*entities, *(f"{RELATION}{name}" for name in stated))


def split_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The entities and the relations of stated names; without a relation, the only one is "".

    Examples
    --------
    >>> split_names(["cat", "→ is a", "mammal", "→ eats"])
    (['cat', 'mammal'], ['is a', 'eats'])
    """
    entities = [name for name in names if not name.startswith(RELATION)]
    relations = [name.removeprefix(RELATION) for name in names if name.startswith(RELATION)]
    return entities, relations or [""]

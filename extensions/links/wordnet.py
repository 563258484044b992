"""WordNet's nouns (Fellbaum, 1998): each synset linked to all above it, from its database."""

import tarfile
from pathlib import Path

from curvfed.extensions.links.raw import RawLinks, raw_links
from curvfed.tasks.errors import unreadable

ROOTS = {
    "mammals": "mammal.n.01",
    "animals": "animal.n.01",
    "plants": "plant.n.02",
    "nouns": "entity.n.01",
}
"""The synset below which the links of a data set are."""

LEFT_OUT = {"mammals": {"tusker.n.01", "female_mammal.n.01"}}
"""Synsets that are not heads, as in the data of Nickel & Kiela (2017)."""

ABOVE = ("@", "@i")
"""The pointers to hypernyms, and from instances to theirs."""


def read_part(archive: Path, name: str) -> RawLinks:
    """The links of a data set of `ROOTS`; synsets are named by first word and sense, `dog.n.01`.

    Raises
    ------
    DataError
        If the archive is cut off, or not WordNet's (its format is wndb(5WN)).
    """
    root = ROOTS[name]
    ancestors: dict[str, set[str]] = {}
    try:
        with tarfile.open(archive) as files:
            senses = {fields[0]: fields for fields in _lines(files, "index.noun")}
            synsets = {fields[0]: fields for fields in _lines(files, "data.noun")}
        names = {offset: _name(offset, senses, synsets) for offset in synsets}
        parents = {names[offset]: _parents(fields, names) for offset, fields in synsets.items()}
        inside = {synset for synset in parents if root in _above(synset, parents, ancestors)}
        _above(root, parents, ancestors)
    except (OSError, EOFError, tarfile.TarError, LookupError, ValueError) as error:
        raise unreadable(archive, error, "archive of WordNet 3.0") from error
    inside.add(root)
    heads = sorted(inside - LEFT_OUT.get(name, set()))
    rows = [(head, tail) for head in heads for tail in sorted(ancestors[head] & inside)]
    return raw_links(str(archive), rows)


def _lines(files: tarfile.TarFile, name: str) -> list[list[str]]:
    """The fields of the lines of a file; those that begin with a space are the licence."""
    file = files.extractfile(f"WordNet-3.0/dict/{name}")
    assert file is not None
    lines = file.read().decode("utf-8").splitlines()
    return [line.partition("|")[0].split() for line in lines if line[:1] != " "]


def _name(offset: str, senses: dict[str, list[str]], synsets: dict[str, list[str]]) -> str:
    """The first word of a synset, and its place among the senses of this word."""
    word = synsets[offset][4].lower()
    number = int(senses[word][2])
    sense = senses[word][-number:].index(offset) + 1
    return f"{word}.n.{sense:02}"


def _parents(fields: list[str], names: dict[str, str]) -> list[str]:
    """The synsets right above one."""
    begin = 4 + 2 * int(fields[3], 16)
    end = begin + 1 + 4 * int(fields[begin])
    pointers = zip(fields[begin + 1 : end : 4], fields[begin + 2 : end : 4], strict=True)
    return [names[offset] for symbol, offset in pointers if symbol in ABOVE]


def _above(synset: str, parents: dict[str, list[str]], ancestors: dict[str, set[str]]) -> set[str]:
    """All synsets above one, kept in `ancestors`."""
    if synset not in ancestors:
        ancestors[synset] = set(parents[synset])
        for parent in parents[synset]:
            ancestors[synset] |= _above(parent, parents, ancestors)
    return ancestors[synset]

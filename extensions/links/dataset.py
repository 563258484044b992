"""Links: their files, their partition by branches, the edges of client graphs as links, and the
tasks of the clients."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.extensions.links.client_links import ClientLinks
from curvfed.extensions.links.closure import closed
from curvfed.extensions.links.models import COORDINATES, LinkModelSpec
from curvfed.extensions.links.names import SPACE_MODELS, split_names, stated_names
from curvfed.extensions.links.owners import owners_of
from curvfed.extensions.links.raw import RawLinks, balanced_tree, random_tree, raw_links
from curvfed.extensions.links.readers import locate
from curvfed.extensions.links.relations import OPERATORS
from curvfed.extensions.links.sources import LINK_SOURCES, ORDERS
from curvfed.extensions.links.split import Integers, LinkSpec, fewer_tests, own_parts, split_links
from curvfed.extensions.links.wordnet import ROOTS, read_part
from curvfed.tasks.dataset import Dataset
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import (
    masks_of,
    membership_digest,
)
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.public_data import Located, PublicData
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import partitioned_kind
from curvfed.tasks.stored_files import file_stamps

log = logging.getLogger("curvfed")

PARTITION_STREAM = 16
"""Random stream of the seed."""

CLOSED = "-closed"
"""The reading of links if further ones are made of those in the files; none are made of links that
are closed already."""

MAMMALS = Path("taxonomy", "mammal_closure.csv")
"""The closure as Nickel & Kiela's program writes it, read in place of WordNet's archive."""


class LinkDataset(Dataset):
    """Links, each held by one client; all clients share the entities by their names."""

    examples = ClientLinks
    raw = (RawLinks,)
    tasks = ("links",)
    place_words = "links in "
    spec: LinkSpec

    @classmethod
    def configured(cls, run: Any, cache: Path | None = None) -> Self:
        """The links of a run's configuration, which are read anew by each process, or the edges of
        its graphs."""
        keys = run.table("links")
        train_size = run.train_size if keys.hold_out else 1.0
        test_size = run.test_size if keys.hold_out else 0.0
        spec = LinkSpec(
            run.dataset,
            run.data_path,
            run.partition,
            run.seed,
            train_size,
            test_size,
            keys.trained_ends,
            keys.closure,
            keys.reciprocal,
        )
        if partitioned_kind("links", run.dataset, run.data_path) == "links":
            return cls(spec)
        return GraphLinks(spec, run, cache)  # type: ignore[return-value]

    def find(self, source: PublicData) -> Located[RawLinks] | None:
        """The files of a public data set, or None if they are absent."""
        if source is LINK_SOURCES["balanced-tree"]:
            return Located((), lambda: balanced_tree(3, 5))
        if source is LINK_SOURCES["random-tree"]:
            return Located((), lambda: random_tree(1200, 8, self.spec.seed))
        name = self.spec.dataset.lower()
        closure = self.spec.data_dir.expanduser() / MAMMALS
        if name == "mammals" and closure.is_file():
            return locate(closure)
        folder = source.folder(self.spec.data_dir)
        if folder is None:
            return None
        if name in ROOTS:
            archive = folder / source.files[0]
            return Located((archive,), partial(read_part, archive, name))
        if len(source.files) == 1:
            return locate(folder / source.files[0])
        return locate(folder, ORDERS.get(name))

    def locate_files(self, path: Path) -> Located[RawLinks]:
        """A user's file or folder."""
        return locate(path)

    def part(self, partition_id: int, num_partitions: int) -> ClientLinks:
        """The links of one client; their entities are numbered as in the whole data set."""
        raw = self._read()
        owners, digest = _owners(self.spec, num_partitions, self._stamps())
        parts = self._parts_of_all(raw)
        return self._links(raw, parts, owners == partition_id, digest)

    def test(self, path: Path | None = None) -> ClientLinks | None:
        """All links; no client trains on the test part, and those of a path are all known."""
        if path is None:
            raw = self._read()
            return self._links(raw, self._parts_of_all(raw))
        raw = self._closed(self.locate_own(path.expanduser()).read())
        parts = np.zeros(len(raw.triples), np.int64)
        return self._links(replace(raw, parts=parts), parts)

    def own_data(self, raw: RawLinks) -> ClientLinks:
        """A node's own links, split as the files are, or else by their names or at random; the
        digest of the split is that of the links in the files."""
        if self.record_split is None:
            all_links = self._closed(raw)
            return self._links(all_links, split_links(all_links, self.spec))
        all_links, parts = self._split_and_closed(raw, self.record_split)
        own = own_parts(raw, self.record_split)
        digest = self.record_split.digest(raw.records, own, raw.context())
        reading = CLOSED if len(all_links.triples) > len(raw.triples) else ""
        return replace(self._links(all_links, parts), split_digest=digest, reading=reading)

    def _split_and_closed(
        self, raw: RawLinks, record_split: RecordSplit
    ) -> tuple[RawLinks, Integers]:
        """The links, with those to all ancestors if the run makes them, and their parts.

        Links are split before others are made of them, so that none in training follows from a
        held-out record. A made link is held out too if its names say so: whether the file has it
        changes no training link.
        """
        if raw.parts is not None:
            all_links = self._closed(raw)
            return all_links, split_links(all_links, self.spec, record_split)
        parts = split_links(raw, self.spec, record_split)
        all_links = self._closed(replace(raw, parts=parts))
        drawn = split_links(replace(all_links, parts=None), self.spec, record_split)
        return all_links, np.maximum(np.asarray(all_links.parts), drawn)

    def _closed(self, raw: RawLinks) -> RawLinks:
        """The links, with those to all ancestors if the run makes them."""
        return closed(self.spec.dataset, raw) if self.spec.closure else raw

    def _stamps(self) -> tuple[Any, ...]:
        return tuple(file_stamps(self.locate().files))

    def _read(self) -> RawLinks:
        return _read_links(self.spec, self._stamps())

    def _parts_of_all(self, raw: RawLinks) -> Integers:
        """The part of each link of the data set; clients in one process share a split of the
        run's."""
        if self.record_split is None:
            return _parts(self.spec, self._stamps())
        return split_links(raw, self.spec, self.record_split)

    def _links(
        self,
        raw: RawLinks,
        parts: Integers,
        is_held: NDArray[np.bool_] | None = None,
        digest: str = "",
    ) -> ClientLinks:
        """Those of the links that are held, or all, in their parts."""
        is_drawn = raw.parts is None and self.record_split is None
        fewer = fewer_tests(parts, self.spec) if is_drawn else []
        chosen = np.ones(len(parts), np.bool_) if is_held is None else is_held
        heads, relations, tails = torch.from_numpy(raw.triples[chosen]).T.contiguous()
        return ClientLinks.split(
            torch.from_numpy(masks_of(parts[chosen])),
            heads=heads,
            relations=relations,
            labels=tails,
            class_names=stated_names(raw.entities, raw.relations),
            partition_digest=digest,
            metric="mrr",
            history="; ".join([*raw.history, *fewer]),
            doubts=raw.notes,
            reciprocal=self.spec.reciprocal,
        )

    @staticmethod
    def task(
        run: Any, examples: ClientLinks, class_names: tuple[str, ...], device: Any, model: Any
    ) -> Any:
        """The client's links, with the loss of a choice among negatives."""
        from curvfed.extensions.links.client_task import LinkTask

        negatives = run.table("links").negatives
        return LinkTask(examples, class_names, device, run.batch_size, negatives, run.seed)

    @staticmethod
    def model_spec(
        run: Any,
        facts: Any,
        model: str,
        options: Mapping[str, Any],
        num_features: int,
        num_classes: int,
    ) -> LinkModelSpec:
        """The embedding, with `embedding-dim` numbers for each entity."""
        entities, relations = split_names(facts.class_names)
        keys = run.table("links")
        space = {}
        if model in COORDINATES:
            space = {"curvature": keys.space}
            space |= {name: getattr(keys, name) for name in ("score", "bias", "relations")}
        return LinkModelSpec(
            kind=model,
            num_entities=len(entities),
            num_relations=len(relations) * (1 + keys.reciprocal),
            dim=run.embedding_dim,
            **space,
            **options,
        )

    @staticmethod
    def unused(run: Any, examples: ClientLinks, model: str) -> list[str]:
        """The relations, if there are several and the scores do not depend on them."""
        _, relations = split_names(examples.class_names)
        if model not in SPACE_MODELS or len(relations) == 1:
            return []
        if run.table("links").relations != "none":
            return []
        operators = " or ".join(OPERATORS)
        return [
            f"the links have {len(relations)} relations, and the scores of method = {run.method} do"
            f" not depend on them; they do with links.relations = {operators}, and with method ="
            " links-complex or links-rotate"
        ]


class GraphLinks(LinkDataset):
    """The edges of the graphs that the classification of nodes gives the clients.

    Parameters
    ----------
    spec : LinkSpec
    run : RunConfig
        With its defaults resolved.
    cache : Path or None
        As for `Dataset`.

    Raises
    ------
    DataError
        If the run asks for a closure: edges have no direction.
    """

    def __init__(self, spec: LinkSpec, run: Any, cache: Path | None = None) -> None:
        from curvfed.tasks.graphs.dataset import GraphDataset

        super().__init__(spec, cache)
        if spec.closure:
            raise DataError(
                f"links.closure = true, and the links are the edges of the graph {spec.dataset},"
                " which have no direction; allowed is false",
                key="no-direction",
            )
        defaults = KINDS["nodes"].defaults
        settings = {name: defaults[name] for name in ("train_size", "test_size", "batch_size")}
        self._graphs = GraphDataset.of_run(run.model_copy(update=settings), cache)

    def part(self, partition_id: int, num_partitions: int) -> ClientLinks:
        """Each edge in both directions, which are in one part of the split."""
        graph = self._graphs.client(partition_id, num_partitions)
        names = [f"{partition_id}.{node}" for node in range(len(graph.features))]
        if graph.numbers is not None and graph.task == "nodes":
            names = list(map(str, graph.numbers.tolist()))
        edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist()
        raw = raw_links(
            f"this part of {self.spec.dataset}",
            [(names[head], names[tail]) for head, tail in edges],
        )
        parts = split_links(raw, self.spec)
        triples = np.concatenate([raw.triples, raw.triples[:, ::-1]])
        parts_of_both = np.concatenate([parts, parts])
        both = replace(raw, triples=triples, parts=parts_of_both)
        return self._links(both, parts_of_both, digest=graph.partition_digest)

    def test(self, path: Path | None = None) -> ClientLinks | None:
        """Those of a path; the server does not know the clients' graphs."""
        return None if path is None else super().test(path)


DATASET = LinkDataset


@lru_cache(maxsize=2)
def _read_links(spec: LinkSpec, stamps: tuple[Any, ...]) -> RawLinks:
    dataset = LinkDataset(spec)
    return dataset._closed(dataset.locate().read())


@lru_cache(maxsize=2)
def _owners(spec: LinkSpec, num_partitions: int, stamps: tuple[Any, ...]) -> tuple[Integers, str]:
    """The client of each link, and a hash of these numbers."""
    rng = np.random.default_rng([spec.seed, PARTITION_STREAM])
    owners = owners_of(_read_links(spec, stamps), spec.partition, num_partitions, rng)
    return owners, membership_digest(owners)


@lru_cache(maxsize=2)
def _parts(spec: LinkSpec, stamps: tuple[Any, ...]) -> Integers:
    """The part of each link."""
    return split_links(_read_links(spec, stamps), spec)

"""Links of a finished run: the most likely tails of heads, the nearest neighbours of entities, and
their hierarchy."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from curvfed.client_app.data import load_data
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.prediction import is_own
from curvfed.deployments.predict.trained_run import PredictError, RequestError, TrainedRun
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.tasks.errors import did_you_mean, unreadable
from curvfed.tasks.links.client_links import split_names
from curvfed.tasks.links.dataset import LinkDataset
from curvfed.tasks.links.models import Embedding
from curvfed.tasks.links.scores import KnownLinks

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame

TAILS = "tails"
SHOWN = (TAILS, "neighbours", "hierarchy")
"""What an embedding of links shows of entities."""

HEADERS = (("head",), ("entity",), ("head", "relation"))
"""First lines of a file of heads that are no head."""

_TURNED = 1e-5  # of a row's length: rounding of a decay turns it less


class LinkOptions(NamedTuple):
    """What is asked of an embedding of links.

    Attributes
    ----------
    show : str
        One of `SHOWN`.
    most : int
        Tails or neighbours of each entity.
    known : str or None
        Links that are no answer: a file, or the name of the run's data set. None: all tails are.
    """

    show: str = TAILS
    most: int = 10
    known: str | None = None


@dataclass(frozen=True, eq=False)
class LinkPrediction:
    """What an embedding of links shows, by columns, and the model in words."""

    columns: dict[str, list[Any]]
    notes: dict[str, str]

    def table(self) -> "DataFrame":
        """A row per head and tail, per entity and neighbour, or per entity."""
        from pandas import DataFrame

        return DataFrame(self.columns)


class Query(NamedTuple):
    """An entity, with or without a relation, and where it is asked for."""

    place: str
    entity: str
    relation: str = ""


class _Rows:
    """The embedding of a run, or of one of its clients, by names.

    Attributes
    ----------
    trained : Tensor (m,), int64
        The entities whose rows some client, or the named one, has trained, ascending.
    """

    def __init__(self, run: TrainedRun, client: int | None, state_path: Path | None) -> None:
        model, self.description = model_of(run, client, state_path)
        assert isinstance(model, Embedding)
        self.model = model
        self.entities, self.relations = split_names(run.facts.class_names)
        self.numbers = {name: row for row, name in enumerate(self.entities)}
        start: Any = build_model(model_spec(run.config, run.facts), run.config.seed)
        is_trained = _is_changed(model.entities.detach(), start.entities.detach())
        self.trained = is_trained.nonzero().squeeze(1)

    @cached_property
    def tells_relations(self) -> bool:
        """Whether scores differ by relation."""
        return len(self.relations) > 1 and hasattr(self.model, "relations")

    def entity(self, query: Query) -> int:
        """The number of the entity.

        Raises
        ------
        PredictError
            If no client has named or trained it.
        """
        number = self.numbers.get(query.entity)
        if number is None:
            hint = did_you_mean(query.entity, self.entities, "--show hierarchy of the data set")
            raise PredictError(
                f'{query.place}: no client of this run has named the entity "{query.entity}"{hint}',
                key="unknown-entity",
            )
        if not bool((self.trained == number).any()):
            raise PredictError(
                f'{query.place}: the entity "{query.entity}" is in no link that this model was'
                f" trained on; allowed are the {len(self.trained)} others",
                key="untrained-entity",
            )
        return number

    def relation(self, query: Query) -> int:
        """The number of the relation; 0 if none is named and none is needed.

        Raises
        ------
        PredictError
        """
        if query.relation in self.relations:
            return self.relations.index(query.relation)
        if not query.relation and not self.tells_relations:
            return 0
        wrong = f'no relation "{query.relation}"' if query.relation else "the relation is missing"
        hint = did_you_mean(query.relation, self.relations, "clients.json")
        if self.relations == [""]:
            hint = "; allowed are heads alone, as the links of this run have no relations"
        raise PredictError(f"{query.place}: {wrong}{hint}", key="unknown-relation")


def _is_changed(rows: Tensor, start: Tensor) -> Tensor:
    """Whether training has moved each row; decay alone only shortens it."""
    is_other = (rows != start).any(dim=1)
    if rows.shape[1] == 1:
        return is_other
    along = (rows * start).sum(1) / start.square().sum(1)
    rest = (rows - along[:, None] * start).norm(dim=1)
    is_turned: Tensor = rest > _TURNED * rows.norm(dim=1)
    return is_other & is_turned


def predict_links(
    run: TrainedRun,
    data: object,
    client: int | None,
    state_path: Path | None,
    options: LinkOptions,
) -> LinkPrediction:
    """What the embedding of a run shows of entities.

    Parameters
    ----------
    data : str or sequence
        A `.tsv` or `.csv` file of heads, or of heads and relations; the run's data set, for all
        entities; or a list of heads, or of pairs of head and relation.

    Raises
    ------
    PredictError, DataError
        If an entity or relation is not known, or the file cannot be read.
    """
    if options.show not in SHOWN:
        raise RequestError(
            f'show is "{options.show}"; allowed is one of {", ".join(SHOWN)}', key="show"
        )
    if options.most < 1:
        raise RequestError(f"most is {options.most}; allowed is a number from 1 on", key="most")
    if options.known is not None and options.show != TAILS:
        raise RequestError(
            f"known is given, but {options.show} are shown; allowed is it with {TAILS}", key="known"
        )
    rows = _Rows(run, client, state_path)
    queries = _queries(run, rows, data)
    notes = {"method": run.config.method, "model": rows.description}
    notes["entities"] = f"{len(rows.trained)} of {len(rows.entities)} trained"
    if options.show == TAILS:
        known = None if options.known is None else _known_links(run, rows, options.known)
        columns = _tails(rows, queries, options.most, known)
    else:
        entities = torch.tensor([rows.entity(query) for query in queries])
        is_tree = options.show == "hierarchy"
        columns = (
            _hierarchy(rows, entities) if is_tree else _neighbours(rows, entities, options.most)
        )
    return LinkPrediction(columns, notes)


def _tails(
    rows: _Rows, queries: Sequence[Query], most: int, known: KnownLinks | None
) -> dict[str, list[Any]]:
    """The most likely tails of each query, other than its head and known links."""
    heads = torch.tensor([rows.entity(query) for query in queries])
    relations = torch.tensor([rows.relation(query) for query in queries])
    columns: dict[str, list[Any]] = {
        "head": [],
        "relation": [],
        "rank": [],
        "tail": [],
        "score": [],
    }
    begin = 0
    for scores in rows.model.blocks(heads, relations, rows.trained):
        block = slice(begin, begin + len(scores))
        begin = block.stop
        left_out = rows.trained == heads[block, None]
        if known is not None:
            asked = relations[block, None] if rows.tells_relations else torch.zeros(1).long()
            left_out |= known.holds(heads[block, None], asked, rows.trained)
        scores = scores.masked_fill(left_out, -torch.inf)
        for query, row in zip(queries[block], scores, strict=True):
            _extend(columns, rows, (query.entity, query.relation), row, most)
    if len(rows.relations) == 1:
        del columns["relation"]
    return columns


def _neighbours(rows: _Rows, entities: Tensor, most: int) -> dict[str, list[Any]]:
    """The nearest other entities."""
    columns: dict[str, list[Any]] = {"entity": [], "rank": [], "neighbour": [], "distance": []}
    for entity, distances in zip(entities, _distances(rows, entities), strict=True):
        others = -distances.masked_fill(rows.trained == entity, torch.inf)
        _extend(columns, rows, (rows.entities[entity],), others, most)
    columns["distance"] = [-value for value in columns["distance"]]
    return columns


def _hierarchy(rows: _Rows, entities: Tensor) -> dict[str, list[Any]]:
    """The distance of each entity from the origin, and the nearest one above it: nearer to the
    origin; "" if there is none. In the order of these distances."""
    with torch.no_grad():
        model = rows.model
        depths = model.distance(model.table()[:, None], model.origin()[None, None]).squeeze(1)
    entities = entities[depths[entities].argsort(stable=True)]
    columns: dict[str, list[Any]] = {"entity": [], "distance": [], "above": []}
    for entity, distances in zip(entities, _distances(rows, entities), strict=True):
        is_above = depths[rows.trained] < depths[entity]
        nearest = rows.trained[distances.masked_fill(~is_above, torch.inf).argmin()]
        columns["entity"].append(rows.entities[entity])
        columns["distance"].append(float(depths[entity]))
        columns["above"].append(rows.entities[nearest] if is_above.any() else "")
    return columns


def _distances(rows: _Rows, entities: Tensor) -> Iterator[Tensor]:
    """The distances (m,) of each entity from the trained ones."""
    for block in rows.model.blocks(entities, None, rows.trained):
        yield from block


def _extend(
    columns: dict[str, list[Any]],
    rows: _Rows,
    asked: tuple[str, ...],
    scores: Tensor,
    most: int,
) -> None:
    """A row for each of the largest scores (m,) of the trained entities: what is asked, rank, name,
    score."""
    best = scores.topk(min(most, len(scores)))
    for rank, (score, place) in enumerate(zip(*best, strict=True), 1):
        if not score.isfinite():
            return
        name = rows.entities[rows.trained[place]]
        for column, cell in zip(columns.values(), (*asked, rank, name, float(score)), strict=True):
            column.append(cell)


def _known_links(run: TrainedRun, rows: _Rows, known: str) -> KnownLinks:
    """The links of a file, or of the run's data set."""
    if is_own(run, known):
        held = [load_data(run.config, run.part_of(client)) for client in run.clients]
    else:
        held = [LinkDataset.of_run(run.config).test(Path(known))]
    triples = torch.cat([links.numbered(run.facts.class_names) for links in held])
    triples = triples[(triples >= 0).all(dim=1)]
    if not rows.tells_relations:
        triples[:, 1] = 0
    return KnownLinks(triples, len(rows.entities), len(rows.relations))


def _queries(run: TrainedRun, rows: _Rows, data: object) -> list[Query]:
    if isinstance(data, str) and is_own(run, data):
        relations = rows.relations if rows.tells_relations else [""]
        names = [rows.entities[number] for number in rows.trained]
        return [Query(data, name, relation) for name in names for relation in relations]
    lines = _lines(Path(data).expanduser()) if isinstance(data, str) else _items(data)
    queries = [Query(place, *(" ".join(cell.split()) for cell in cells)) for place, cells in lines]
    if not queries:
        raise PredictError(f"{data} names no entity; allowed is one or more", key="no-data")
    return queries


def _items(data: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each entity of a list, or head and relation."""
    for number, item in enumerate(data if isinstance(data, list | tuple) else [data], 1):
        cells = (item,) if isinstance(item, str) else item
        is_pair = isinstance(cells, list | tuple) and len(cells) in (1, 2)
        if not is_pair or not all(isinstance(cell, str) for cell in cells):
            raise PredictError(
                f"item {number} of the data is {item!r}; allowed are the name of a head, or a pair"
                " of the names of a head and a relation",
                key="other-data",
            )
        yield f"item {number} of the data", tuple(cells)


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each line of a file that is not empty, after a header, and its place."""
    if path.suffix.lower() not in (".tsv", ".csv") or not path.is_file():
        raise RequestError(
            f'DATA is "{path}"; allowed is the data set of the run, for all its entities, or a .tsv'
            " or .csv file of heads, or of heads and relations",
            key="data",
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            separator = "," if path.suffix.lower() == ".csv" else "\t"
            reader = csv.reader(file, delimiter=separator)
            lines = [(f"{path}, line {reader.line_num}", row) for row in reader if row]
    except (OSError, ValueError, csv.Error) as error:
        raise unreadable(path, error, "file of entities in UTF-8") from error
    if lines and tuple(cell.strip().lower() for cell in lines[0][1]) in HEADERS:
        del lines[0]
    for place, row in lines:
        if len(row) > 2:
            raise PredictError(
                f"{place}: there are {len(row)} columns; allowed are one, head, or two, head and"
                " relation",
                key="columns",
            )
        yield place, row

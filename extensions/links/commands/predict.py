"""Links of a finished run: the most likely tails of heads, the nearest neighbours of entities, and
their hierarchy."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from curvfed.client_app.data import load_data
from curvfed.deployments.inputs import PredictError, RequestError
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.prediction import Options, is_own
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.links.dataset import LinkDataset
from curvfed.extensions.links.names import INVERSE, split_names
from curvfed.extensions.links.ranking import KnownLinks
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.tasks.amounts import with_article
from curvfed.tasks.class_names import class_name, normalised
from curvfed.tasks.errors import DataError, did_you_mean
from curvfed.tasks.tables import ending, table_lines

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame

SHOWN = {
    "tails": ("head", "relation", "rank", "tail", "score"),
    "neighbours": ("entity", "rank", "neighbour", "distance"),
    "hierarchy": ("entity", "distance", "above"),
}
"""The views of an embedding of links, and the columns of their tables."""

MOST_UNKNOWN = 5
"""The most lines that a note about unknown names quotes."""

HEADERS = (["head"], ["entity"], ["head", "relation"])
"""First lines of a file of heads that are not a head."""

_TURNED = 1e-5  # of a row's length: rounding of a decay turns it less


class LinkPrediction(NamedTuple):
    """The rows and columns of a table, and the model in words."""

    rows: list[tuple[Any, ...]]
    columns: tuple[str, ...]
    notes: dict[str, str]

    def table(self) -> "DataFrame":
        """A row per head and tail, per entity and neighbour, or per entity."""
        from pandas import DataFrame

        return DataFrame(self.rows, columns=list(self.columns))


def predict_links(
    run: TrainedRun,
    data: object,
    client: int | None,
    state_path: Path | None,
    options: Options,
    calibrated: bool,
) -> LinkPrediction:
    """The view of entities in the embedding of a run, or of one of its clients.

    Parameters
    ----------
    data : str or sequence
        A `.tsv` or `.csv` file of heads, or of heads and relations, which gzip may have compressed;
        the run's data set, for all entities; or a list of heads, or of pairs of head and relation.

    Raises
    ------
    PredictError, DataError
        If no line has a known entity and relation, or the file cannot be read. Other lines without
        these are left out, and a note has the reasons.
    """
    _check_options(options)
    show = options.show
    known_file = options.known
    model, description = model_of(run, client, state_path, calibrated)
    embedding: Any = model
    entities, relations = split_names(run.facts.class_names)
    if run.config.table("links").reciprocal:
        relations += [f"{INVERSE}{name}".strip() for name in relations]
    # Of the shown, tails alone depend on the relation, where scores do.
    tells_apart = show == "tails" and len(relations) > 1 and embedding.has_relations
    start: Any = build_model(model_spec(run.config, run.facts), run.config.seed)
    is_trained = _changed(embedding.entities.detach(), start.entities.detach())
    trained = is_trained.nonzero().squeeze(1)
    if isinstance(data, str) and is_own(run, data):
        relation_names = relations if tells_apart else [""]
        lines = [(data, [entities[row], name]) for row in trained for name in relation_names]
    else:
        lines = list(_lines(data))
    source = data if isinstance(data, str) else "the list"
    queries, unknown = _numbered(
        lines, entities, relations, set(trained.tolist()), tells_apart, source
    )
    links = None if known_file is None else _known_links(run, known_file, relations, tells_apart)
    if show == "hierarchy":
        rows = _hierarchy(embedding, queries, entities, trained)
    else:
        rows = []
        for head, relation in queries:
            name = relations[relation] if relation >= 0 else ""
            names = [entities[head], name][: 2 if show == "tails" else 1]
            kind = relation if tells_apart else 0
            left_out = trained == head
            if links is not None:
                left_out |= links.holds(torch.tensor(head), torch.tensor(kind), trained)
            kinds = torch.tensor([relation]) if show == "tails" else None
            best = _best(embedding, head, kinds, trained[~left_out], options.most)
            for rank, (row, value) in enumerate(best, 1):
                rows.append((*names, rank, entities[row], value))
    notes = {"method": run.config.method, "model": description}
    notes["entities"] = f"{len(trained)} of {len(entities)} trained"
    if unknown:
        shown = [*unknown[:MOST_UNKNOWN], *["…"] * (len(unknown) > MOST_UNKNOWN)]
        notes["left out"] = f"{len(unknown)} of {len(lines)}: {'; '.join(shown)}"
    return LinkPrediction(rows, SHOWN[show], notes)


def _check_options(options: Options) -> None:
    show = options.show
    count = options.most
    known_file = options.known
    text = ""
    if show not in SHOWN:
        text = f'show is "{show}"; allowed is {", ".join(SHOWN)}'
    elif known_file is not None and not isinstance(known_file, str | os.PathLike):
        text = (
            f"known is {with_article(type(known_file).__name__)}; allowed is the path of a file of"
            " links"
        )
    elif not isinstance(count, int) or count < 1:
        text = f"most is {count!r}; allowed is a whole number >= 1"
    elif known_file is not None and show != "tails":
        text = f'known is "{known_file}" and show is "{show}"; allowed is known with tails alone'
    if text:
        raise RequestError(text, key="link-options")


def _best(
    embedding: Any, head: int, relation: Tensor | None, candidates: Tensor, count: int
) -> list[tuple[int, float]]:
    """The candidates with the highest scores as tails, or without a relation those at the smallest
    distances, and these values."""
    values = next(embedding.blocks(torch.tensor([head]), relation, candidates))[0]
    order = values.argsort(descending=relation is not None, stable=True)[:count]
    return list(zip(candidates[order].tolist(), values[order].tolist(), strict=True))


def _hierarchy(
    embedding: Any, queries: list[tuple[int, int]], entities: list[str], trained: Tensor
) -> list[tuple[Any, ...]]:
    """Each entity by its distance from the origin, and the nearest one that is nearer to the
    origin; "" if missing."""
    depths = embedding.depths().detach()
    rows = []
    for head, _ in sorted(queries, key=lambda query: float(depths[query[0]])):
        candidates = trained[depths[trained] < depths[head]]
        names = [entities[row] for row, _ in _best(embedding, head, None, candidates, 1)] or [""]
        rows.append((entities[head], float(depths[head]), *names))
    return rows


def _changed(rows: Tensor, start: Tensor) -> Tensor:
    """Whether training has moved each row; decay alone only shortens it."""
    is_other = (rows != start).any(dim=1)
    if rows.shape[1] == 1:
        return is_other
    along = (rows * start).sum(1) / start.square().sum(1)
    remainder = (rows - along[:, None] * start).norm(dim=1)
    is_turned: Tensor = remainder > _TURNED * rows.norm(dim=1)
    return is_other & is_turned


def _known_links(
    run: TrainedRun, known_file: str, relations: list[str], tells_apart: bool
) -> KnownLinks:
    """The links of a file, or those of the clients in the run's data set, with inverse relations in
    both directions."""
    names = run.facts.class_names
    link_sets: list[Any]
    if is_own(run, known_file):
        link_sets = [load_data(run.config, run.part_of(client)) for client in run.clients]
    elif not Path(known_file).expanduser().exists():
        raise RequestError(
            f'known is "{known_file}", which is no file; allowed is a file of links, or'
            f' "{run.config.dataset}", the data set of the run',
            key="known",
        )
    else:
        link_sets = [LinkDataset.of_run(run.config).test(Path(known_file).expanduser())]
    try:
        triples = torch.cat([links.numbered(names) for links in link_sets])
    except DataError as error:
        raise PredictError(f'known is "{known_file}": {error}', key="known") from None
    triples = triples[(triples >= 0).all(dim=1)]
    entities, stated = split_names(names)
    if not tells_apart:
        triples[:, 1] = 0
    return KnownLinks(triples, len(entities), len(stated), len(relations) > len(stated))


def _numbered(
    lines: list[tuple[str, list[str]]],
    entities: list[str],
    relations: list[str],
    trained: set[int],
    tells_apart: bool,
    source: str,
) -> tuple[list[tuple[int, int]], list[str]]:
    """The entity and the relation of each line that names known ones, and the reasons of the
    others.

    Raises
    ------
    PredictError
        If lines are missing, or none names an entity and relation that the run knows.
    """
    entity_rows = {name: row for row, name in enumerate(entities)}
    relation_rows = {name: row for row, name in enumerate(relations)}
    numbers = []
    refusals = []
    unasked = -1 if len(relations) > 1 else 0
    for place, cells in lines:
        head, relation = map(normalised, [*cells, ""][:2])
        if head not in entity_rows and class_name(head) in entity_rows:
            head = class_name(head)  # 1 for 1.0, as in tables of links
        is_needed = relation or tells_apart
        try:
            row = _number(place, "entity", head, entity_rows)
            _check_trained(place, head, row, trained)
            kind = _number(place, "relation", relation, relation_rows) if is_needed else unasked
        except PredictError as error:
            refusals.append(error)
            continue
        numbers.append((row, kind))
    if not lines:
        raise PredictError(f"{source} names no entity; allowed is one or more", key="no-data")
    if not numbers:
        raise refusals[0]
    return numbers, [str(error) for error in refusals]


def _check_trained(place: str, head: str, row: int, trained: set[int]) -> None:
    if row not in trained:
        raise PredictError(
            f'{place}: the entity "{head}" is in no link that this model was trained on;'
            f" allowed are the {len(trained)} that are",
            key="untrained-entity",
        )


def _number(place: str, kind: str, name: str, rows: Mapping[str, int]) -> int:
    if name in rows:
        return rows[name]
    if not any(rows):
        raise PredictError(
            f'{place}: the {kind} is "{name}"; allowed is none, for the run has none',
            key=f"unknown-{kind}",
        )
    raise PredictError(
        f'{place}: no client of this run has named the {kind} "{name}"'
        f"{did_you_mean(name, rows, 'clients.json')}",
        key=f"unknown-{kind}",
    )


def _lines(data: object) -> Iterator[tuple[str, list[str]]]:
    """The place and the names of each item of a list, or line of a file that is not empty."""
    lines: list[tuple[str, Any]] = []
    if isinstance(data, list | tuple):
        pairs = [[item] if isinstance(item, str) else item for item in data]
        lines = [(f"item {number} of the data", pair) for number, pair in enumerate(pairs, 1)]
    else:
        path = Path(str(data)).expanduser()
        if ending(path) not in (".tsv", ".csv") or not path.is_file():
            raise RequestError(
                f'DATA is "{data}"; allowed is the data set of the run, for all its entities, a'
                " .tsv, .csv, .tsv.gz or .csv.gz file of heads, or of heads and relations, or a"
                " list of these",
                key="data",
            )
        rows = table_lines(path, min_columns=1)
        lines = [(f"{path}, line {number}", row) for number, row in rows]
        if lines and [cell.lower() for cell in lines[0][1]] in HEADERS:
            del lines[0]
    for place, cells in lines:
        is_pair = isinstance(cells, list | tuple) and len(cells) in (1, 2)
        if not is_pair or not all(isinstance(cell, str) for cell in cells):
            raise PredictError(
                f"{place} is {cells!r}; allowed are the name of a head, or the names of a head and"
                " a relation",
                key="other-data",
            )
        yield place, list(cells)

"""What the study of hierarchies writes: its results, a page of tables, and the picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tables import table_lines, write_csv
from curvfed.extensions.links.commands.expectation import MEASURED
from curvfed.tasks.stored_files import write_atomically
from studies.hierarchies.cells import Cell
from studies.hierarchies.picture import draw
from studies.hierarchies.record import CURVED, FLAT, GROUPS, RESULTS, heading, is_generated

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "measured" / "hierarchies.md"
TABLE = DOCS / "measured" / "hierarchies.csv"
RULES = DOCS / "measured" / "hierarchy-rules.csv"
PICTURE = DOCS / "images" / "hierarchies.svg"

RECONSTRUCTED = Cell("", "", dimension=5, score="reconstruction")
"""The cells of which `curvfed curvature` says the range."""

HEADS = (
    "block",
    "hierarchy",
    "several parents",
    "ancestors",
    "at −1",
    "at 0",
    "inner product",
    "frequent tails",
    "at −1 minus at 0",
    "minus the best flat score",
    "predicted",
)
RULE = (
    "block",
    "hierarchies",
    "number",
    "difference",
    "mean",
    "above 0",
    "below 0",
    "rank correlation with several parents",
    "p",
    "rank correlation with ancestors",
    "p of ancestors",
    "changes its sign at %",
)
BLOCKS = (
    "block",
    "hierarchies",
    "number",
    "at −1 minus at 0",
    "above, below",
    "minus the best flat score",
    "above, below",
)

ABOUT = """\
# Links of hierarchies, curved and flat

    python -m studies.hierarchies --files folder --data folder

writes this page, [all cells](hierarchies.csv), [rank correlations](hierarchy-rules.csv), the picture.
19 hierarchies (`sources.toml`); in `random-N`, N% have a second parent.
A cell is a [comparison](../sweeps.md#compare-methods) of `links` at curvature −1, itself at 0 and the inner product,
with rate, decay, negatives, schedule, score and bias tuned on one seed, compared on five.

Scores: mean reciprocal rank of held-out links among a client's own entities, best validation
round; *reconstruction*: mean average precision of all links. *The best flat score* is the better on the tuning
seed. Intervals: paired, 95%, Bonferroni in their block.

![gains by the share of several parents](../images/hierarchies.svg)
"""


def points(values: Sequence[float]) -> str:
    """A difference with its interval."""
    mean, low, high = map(_signed, values)
    return f"{mean} ({low} to {high})"


def write_page(record: Mapping[str, Any]) -> None:
    """Write the results, the page and the picture."""
    _write_json(RESULTS, record)
    main = heading(Cell("", ""))
    line = record["rules"].get(main, {}).get("made")
    if line:
        names = [item["hierarchy"] for item in record["tables"][main] if not is_generated(item)]
        entities = [record["shapes"][name]["entities"] for name in names]
        kept = ("at_zero", "per_point", "deviation", "mean_share", "spread", "largest_share")
        gain = {key: line["gain"][key] for key in kept}
        numbers = {"hierarchies": line["number"], "fewest_entities": min(entities)}
        reconstructed = _reconstruction(record["tables"][heading(RECONSTRUCTED)])
        _write_json(MEASURED, {"held-out links": numbers | gain, "reconstruction": reconstructed})
    made = f"{record['made']} of {record['planned']} planned cells are made."
    lines = [ABOUT, f"{made} Gains in points; ten clients hold branches unless said.", ""]
    lines += table_lines(
        BLOCKS, [row for title in record["rules"] for row in _block(record, title)]
    )
    if made := record["rules"].get(main, {}).get("made"):
        lines += ["", f"**Hierarchies made by people**, {main}: {_rule_words(made)}"]
    lines.append("")
    if record["predictions"]["rows"]:
        lines += _prediction_lines(record["predictions"])
    if record["saved"]:
        lines += ["", *_saved_lines(record["saved"])]
    write_atomically(PAGE, ("\n".join(lines).rstrip("\n") + "\n").encode())
    rows = [row for title in record["tables"] for row in _rows(title, record)]
    write_csv(TABLE, HEADS, rows)
    write_csv(RULES, RULE, [row for title in record["rules"] for row in _rules(title, record)])
    if main in record["tables"]:
        reconstructed = record["tables"][heading(RECONSTRUCTED)]
        draw(record["tables"][main], reconstructed, record["shapes"], PICTURE)


def _reconstruction(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The gains of a table over the best flat score: their range, and how many are above 0."""
    means = [item["gain"][0] for item in entries]
    return {
        "hierarchies": len(entries),
        "dimension": RECONSTRUCTED.dimension,
        "least": min(means),
        "most": max(means),
        "above": sum(item["gain"][1] > 0 for item in entries),
    }


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def _rows(title: str, record: Mapping[str, Any]) -> list[list[str]]:
    """The cells of a block, by the share of several parents."""
    rows = []
    shapes = record["shapes"]
    predictions = {row["name"]: row["predicted"] for row in record["predictions"]["rows"]}
    is_main = title == heading(Cell("", ""))
    for item in sorted(
        record["tables"][title],
        key=lambda entry: shapes[entry["hierarchy"]]["several_parents"],
    ):
        shape = shapes[item["hierarchy"]]
        scores = [f"{100 * item['methods'][name]['mean']:.1f}" for name in (CURVED, FLAT)]
        scores.append(f"{100 * item['methods']['links-inner']['mean']:.1f}")
        trivial = "–" if item["trivial"] is None else f"{100 * item['trivial']:.1f}"
        about = (f"{100 * shape['several_parents']:.0f}%", f"{shape['ancestors']:.1f}")
        differences = (points(item["curvature"]), points(item["gain"]))
        predicted = predictions.get(item["hierarchy"]) if is_main else None
        expected = "" if predicted is None else _signed(predicted)
        rows.append([title, item["hierarchy"], *about, *scores, trivial, *differences, expected])
    return rows


def _block(record: Mapping[str, Any], title: str) -> list[list[str]]:
    """Rows of the gains of a block: of all of its hierarchies, of those that people made, and of
    generated ones. The first one has the title."""
    rows: list[list[str]] = []
    rules = record["rules"][title]
    for name, summary in rules.items():
        if name != "all" and summary["number"] == rules["all"]["number"]:
            continue  # the same hierarchies as in the row of all
        figures = []
        for gain in (summary["curvature"], summary["gain"]):
            figures += [_signed(gain["mean"]), f"{gain['above']}, {gain['below']}"]
        words = "" if rows else title.replace(", 10 clients", "").replace(", branches", "")
        rows.append([words, GROUPS[name], str(summary["number"]), *figures])
    return rows


def _rules(title: str, record: Mapping[str, Any]) -> list[list[str]]:
    """How the differences of a block go with the share of several parents and with the ancestors:
    a row for each group of hierarchies and each difference."""
    rows = []
    differences = {"curvature": "at −1 minus at 0", "gain": "minus the best flat score"}
    for group, summary in record["rules"][title].items():
        for name, words in differences.items():
            line = summary[name]
            crossing = line["sign_changes_at"]
            counts = [line["above"], line["below"]]
            ranks = [line[key] for key in ("shares", "shares_p", "ancestors", "ancestors_p")]
            rows.append(
                [
                    title,
                    GROUPS[group],
                    str(summary["number"]),
                    words,
                    _signed(line["mean"]),
                    *map(str, counts),
                    *(f"{value:.2g}".replace("-", "−") for value in ranks),
                    "" if crossing is None else f"{crossing:.0f}",
                ]
            )
    return rows


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _rule_words(summary: Mapping[str, Any]) -> str:
    gain = summary["gain"]
    curvature = summary["curvature"]
    alone = ["–", "–"]
    if None not in (gain["shares_alone"], gain["ancestors_alone"]):
        alone = [f"{gain[key]:.2f}" for key in ("shares_alone", "ancestors_alone")]
    crossing = gain["sign_changes_at"]
    sign = "does not change its sign"
    if crossing is not None:
        sign = f"changes its sign at {crossing:.0f}%"
    return (
        f"of {summary['number']} intervals of at −1 minus at 0, {curvature['above']} lie above 0"
        f" and {curvature['below']} below; of those to the best flat score, {gain['above']} and"
        f" {gain['below']}. Rank correlation of the gain over the best flat score with the share of"
        f" several parents {gain['shares']:.2f} (p {gain['shares_p']:.2g}), with the ancestors of"
        f" an entity {gain['ancestors']:.2f} (p {gain['ancestors_p']:.2g}); with the other held"
        f" fixed {' and '.join(alone)}. The line through"
        f" the gains {sign}."
    ).replace("-", "−")


def _prediction_lines(record: Mapping[str, Any]) -> list[str]:
    return [
        f"**Predictions** for {record['number']} hierarchies, untouched before:"
        f" {record['signs']} of {record['number']} signs and {record['inside']} of {record['number']}"
        f" values within the intervals; root mean square error {record['error']:.1f} points."
    ]


def _saved_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "## What curvature saves",
        "",
        "The smallest dimension with an interval over the best flat score above 0, and the smallest"
        " in which a flat score is as high; kB of a client per round.",
        "",
        "| hierarchy | score | at −1 | dimension | kB | flat dimension | kB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        flat = [f"more than {row['largest']}", "–"]
        if row["flat_dimension"]:
            flat = [str(row["flat_dimension"]), f"{row['flat_bytes'] / 1000:.0f}"]
        curved = [f"{100 * row['mean']:.1f}", str(row["dimension"]), f"{row['bytes'] / 1000:.0f}"]
        score = "held-out links" if row["score"] == "personal" else row["score"]
        lines.append(f"| {' | '.join((row['name'], score, *curved, *flat))} |")
    return lines

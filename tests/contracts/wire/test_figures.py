"""The registry of figures has what runs write, and replies keep its ranges."""

import math

import pytest
from app_runs import EVERY, QUICK, run
from errors import refuses
from plugin_package import package, python
from tiers import only

from curvfed.server_app.directory import KEYS, TABLES, TEXTS
from curvfed.strategies.base.figure import RUN, Figure
from curvfed.strategies.base.figure_values import check_sent
from curvfed.strategies.base.figures import (
    FIGURES,
    HULL_COUNTS,
    SENT,
    SUMMED,
    find,
    names,
)
from curvfed.strategies.methods.hull.client import check_hull_counts
from curvfed.strategies.wire.checks import MessageError

METHODS = ("flatland", "hyperfed", "spherefed", "fedgnn", "gcfl", "fedgta", "hull")


@pytest.mark.parametrize("method", only(METHODS, {"flatland", "spherefed", "hull"}.__contains__))
def test_every_figure_of_a_run_has_a_row(method, tmp_path):
    task = dict(EVERY)[method]
    made = run(tmp_path, **QUICK[task] | {"method": method, "num_rounds": 1})
    for name, rows in {"rounds.csv": made.rounds, "clients.csv": made.clients}.items():
        assert tuple(rows[0])[: len(TABLES[name])] == TABLES[name]
        texts = {*KEYS, "partition", *TEXTS[name]}
        assert rows[0].keys() - texts <= FIGURES.keys()
    assert made.summary.keys() >= set(names(RUN))
    without_row = [
        name
        for name in made.summary["metrics"]
        if find(name) == Figure(name, name.replace("_", " "))
    ]
    assert without_row == []


BAD_FIGURES = """
from curvfed.strategies.base.figure import CLIENT, Figure, share

FIGURES = (
    "text",
    share("mine_sent", "sent", CLIENT, is_sent=True),
    share("accuracy", "another accuracy"),
    share("svm_c", "another C"),
    share("mine", "mine"),
    share("mine", "mine again"),
)
"""
READ = """
from curvfed.strategies.base.figures import FIGURES, ROWS, SENT, SUMMED
print([row.name for row in ROWS if row.name.startswith("mine")], len(ROWS) - len(FIGURES))
print(FIGURES["accuracy"].words, FIGURES["svm_c"].words, *SENT, *SUMMED)
"""


def test_a_bad_figure_of_a_package_is_left_out_with_the_reason(tmp_path):
    """Got: every command stopped at a text; a sent one moved the figures in masked vectors."""
    package(tmp_path / "site", "brings", BAD_FIGURES, {"curvfed.figures": {"x": "brings:FIGURES"}})
    printed = python(READ, tmp_path / "home", tmp_path / "site")
    assert "['mine'] 0\n" in printed
    assert " ".join(["test accuracy C of the classifier", *SENT, *SUMMED]) in printed
    for text in ("'text'", "'mine_sent'", "'accuracy'", "'svm_c'", "'mine again'"):
        assert any(
            text in line and "is left out" in line and "curvfed.figures: x" in line
            for line in printed.splitlines()
        )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", SENT)
def test_replies_are_finite(name, bad):
    check_sent({name: 1.0})
    with refuses("figure-out-of-range", name, bad, error=MessageError):
        check_sent({name: bad})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", 1e31),
        ("seconds", -1.0),
        ("steps", 1.5),
        ("points", -10.0),
        ("moved", 2.0**53),
        ("curvature", -2e30),
        ("score", 1.5),
        ("score", -0.1),
        ("validation_before", 7.0),
    ],
)
def test_replies_keep_the_ranges(name, value):
    with refuses("figure-out-of-range", name, value, error=MessageError):
        check_sent({name: value})


@pytest.mark.parametrize("name", ["k", "global_accuracy"])
def test_a_figure_that_clients_do_not_send_is_refused(name):
    with refuses("unexpected-figure", f'"{name}"', error=MessageError):
        check_sent({name: 0.5})


@pytest.mark.parametrize("absent", HULL_COUNTS)
def test_counts_about_hulls_come_together_or_not_at_all(absent):
    whole = {"points": 9.0, "revealed": 4.0, "vertices": 4.0, "moved": 0.0, "thinned": 0.0}
    check_hull_counts(whole)
    check_hull_counts({})
    with pytest.raises(MessageError, match="or none"):
        check_hull_counts({name: value for name, value in whole.items() if name != absent})
    with pytest.raises(MessageError, match="10 points are revealed and 0 moved of 9"):
        check_hull_counts(whole | {"revealed": 10.0})

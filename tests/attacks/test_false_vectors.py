"""Members of a secure sum that send a false vector, which nobody can see, and texts of clients that a
spreadsheet would run."""

import csv
import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_runs import run
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st

from curvfed.client_app import masked_replies
from curvfed.server_app.directory import frame_csv, from_text_cell, text_cell
from curvfed.server_app.run import RoundError
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.secure_phases import check_mean
from curvfed.strategies.errors import SecureSumError

MASKED: dict[str, Any] = {"method": "fedavg", "secure_sum": True}


@pytest.mark.parametrize("factor", [1e3, -1e3])
def test_a_huge_vector_of_one_member_ends_the_run_before_it_is_averaged(
    factor, tmp_path, monkeypatch
):
    honest = masked_replies.weighted_update
    calls = []

    def false(*arguments: Any) -> Any:
        calls.append(1)
        vector, norm = honest(*arguments)
        is_false = len(calls) == 5  # the second of three members, in the second round
        return (vector + factor * np.ones_like(vector) if is_false else vector), norm

    monkeypatch.setattr(masked_replies, "weighted_update", false)
    with refuses("no-sum", "round 2", "secure.clip", error=RoundError):
        run(tmp_path, "false", secure__clip=0.5, num_rounds=3, **MASKED)
    monkeypatch.setattr(masked_replies, "weighted_update", honest)
    result = run(tmp_path, "honest", secure__clip=0.5, num_rounds=3, **MASKED)
    assert result.summary["status"] == "completed"


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.integers(1, 50), st.floats(0.01, 10))
def test_every_mean_of_shortened_changes_is_allowed_and_no_longer_one(change, weight, limit):
    array = np.array(change)
    norm = np.linalg.norm(array)
    longest = array * (limit / norm if norm > limit else 1) * weight
    sent = {"weight": np.zeros_like(array)}
    check_mean(Statistics({"weight": longest}, weight), sent, limit)
    check_mean(Statistics({"weight": 0 * array}, 0), sent, limit)
    beyond = {"weight": np.full_like(array, 1.01 * limit * weight)}
    for total in (Statistics(beyond, weight), Statistics(beyond, 0), Statistics(beyond, -weight)):
        with refuses("impossible-mean", error=SecureSumError):
            check_mean(total, sent, limit)


@pytest.mark.parametrize("name", ["=1+1", "+SUM(A1)", "-2+3", "@cmd", "\t=1", '=HYPERLINK("x")'])
def test_no_name_is_a_formula(name):
    assert text_cell(name) == "'" + name
    assert from_text_cell(text_cell(name)) == name


def test_no_cell_of_a_frame_is_a_formula():
    """Tables of predictions, comparisons and sweeps; numbers stay numbers."""
    frame = pd.DataFrame({"=image": ["@x.png", "b"], "class": ["=1+1", "-2"], "score": [-0.5, 1]})
    lines = frame_csv(frame, float_format="%.2f").splitlines()
    assert lines == ["'=image,class,score", "'@x.png,'=1+1,-0.50", "b,-2,1.00"]


@pytest.mark.parametrize("name", ["-1", "+1.5", "-1e-3", "T cell", "CD4+", "", "'quoted'"])
def test_numbers_and_plain_names_stay(name):
    assert text_cell(name) == name == from_text_cell(name)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0")))
def test_names_come_back(name):
    text = io.StringIO()
    csv.writer(text).writerow([text_cell(name), "end"])
    (cell, _) = next(csv.reader(io.StringIO(text.getvalue())))
    if not name.startswith("'"):
        assert from_text_cell(cell) == name
    assert cell[:1] not in tuple("=+-@") or text_cell(cell) == cell

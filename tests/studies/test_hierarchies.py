"""The study of hierarchies: its page has what its results say, and so has `curvfed curvature`."""

import json
import subprocess
from argparse import Namespace
from dataclasses import asdict
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_rel

from benchmarks.tables import read_csv
from curvfed.extensions.links.commands.expectation import measured_gain, measured_reconstruction
from curvfed.extensions.sweeps.commands.compare.request import read_comparison
from studies.hierarchies import page, record
from studies.hierarchies.__main__ import run_cell
from studies.hierarchies.cells import PREDICTIONS, Cell, cells

STORED = json.loads(record.RESULTS.read_text(encoding="utf-8"))


def test_the_page_is_made_from_the_results(tmp_path, monkeypatch):
    for name in ("RESULTS", "PAGE", "TABLE", "RULES", "PICTURE", "MEASURED"):
        monkeypatch.setattr(page, name, tmp_path / name.lower())
    stored = page.PAGE, page.MEASURED, page.TABLE, page.RULES
    monkeypatch.setattr(page, "draw", lambda *_: None)
    page.write_page(STORED)
    written = stored[0].read_text(encoding="utf-8")
    monkeypatch.undo()
    assert page.PAGE.read_text(encoding="utf-8") == written
    assert page.MEASURED.read_text(encoding="utf-8") == stored[1].read_text(encoding="utf-8")
    assert page.TABLE.read_bytes() == stored[2].read_bytes()
    assert page.RULES.read_bytes() == stored[3].read_bytes()


def test_cells_of_the_committed_results_are_kept_without_their_comparisons(tmp_path):
    collected = record.collect(tmp_path, STORED["shapes"])
    assert json.loads(json.dumps(collected)) == STORED


def test_compare_takes_the_settings_of_a_cell(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(
        subprocess, "run", lambda command, check: commands.append(command) or Mock(returncode=0)
    )
    options = Namespace(results=tmp_path, files=tmp_path, data=tmp_path)
    assert run_cell(Cell("", "random-0"), options) == 0
    pairs = [word for word in commands[0] if "=" in word]
    assert read_comparison(pairs, None).first_config.links.trained_ends is False


def test_the_table_has_every_cell_with_its_differences():
    rows = read_csv(page.TABLE)
    assert len(rows) == STORED["made"]
    title = record.heading(Cell("", ""))
    gains = {item["hierarchy"]: page.points(item["gain"]) for item in STORED["tables"][title]}
    assert {row[1]: row[-2] for row in rows if row[0] == title} == gains
    predicted = {row[1] for row in rows if row[-1]}
    assert predicted == set(PREDICTIONS["untouched"]) & set(gains)


def test_the_expected_gain_is_the_line_of_the_main_table():
    line = STORED["rules"][record.heading(Cell("", ""))]["made"]
    gain = asdict(measured_gain())
    assert gain.pop("hierarchies") == line["number"]
    assert gain.pop("fewest_entities") == 510  # Fly abdominal neurons
    assert gain == {key: line["gain"][key] for key in gain}
    entries = STORED["tables"][record.heading(page.RECONSTRUCTED)]
    gains = [item["gain"] for item in entries]
    reconstruction = measured_reconstruction()
    assert reconstruction.hierarchies == len(gains) == 7
    assert (reconstruction.least, reconstruction.most) == (min(gains)[0], max(gains)[0])
    assert reconstruction.above == sum(low > 0 for _, low, _ in gains)


def test_differences_are_those_of_a_paired_test():
    entries = STORED["tables"][record.heading(Cell("", ""))]
    for item in entries:
        for key, rival in (("curvature", record.FLAT), ("gain", item["best_flat"])):
            scores = [item["methods"][name]["scores"] for name in (record.CURVED, rival)]
            paired = ttest_rel(*scores).confidence_interval(1 - 0.05 / len(entries))
            assert item[key][1:] == pytest.approx([100 * paired.low, 100 * paired.high])


def test_rank_correlations_are_those_of_the_stored_gains():
    entries = STORED["tables"][record.heading(Cell("", ""))]
    shares = [STORED["shapes"][item["hierarchy"]]["several_parents"] for item in entries]
    gains = [item["gain"][0] for item in entries]
    line = STORED["rules"][record.heading(Cell("", ""))]["all"]["gain"]
    assert line["shares"] == pytest.approx(spearmanr(shares, gains).statistic)
    assert line["per_point"] == pytest.approx(np.polyfit(100 * np.array(shares), gains, 1)[0])


def test_every_prediction_is_that_of_the_committed_line():
    shapes = STORED["shapes"]
    for name, gain in PREDICTIONS["gains"].items():
        share = 100 * shapes[name]["several_parents"]
        line = PREDICTIONS["at_zero"] + PREDICTIONS["per_point"] * share
        assert gain == pytest.approx(line, abs=0.1)


def test_every_cell_has_a_name_of_its_own():
    names = [cell.name for cell in cells()]
    assert len(names) == len(set(names))


def _scored(score, dimension, curved, flat, low):
    methods = {"links": curved, "links at 0": flat}
    return {
        "hierarchy": "tree",
        "clients": 10,
        "partition": "branches",
        "links": "closure",
        "score": score,
        "dimension": dimension,
        "best_flat": "links at 0",
        "gain": (0.0, low, 1.0),
        "methods": {
            name: {"mean": mean, "bytes": 100 * dimension} for name, mean in methods.items()
        },
    }


def test_a_saving_is_the_smallest_flat_dimension_as_good_as_the_smallest_curved_one_that_gains():
    of_all = [
        _scored("reconstruction", 10, 0.9, 0.8, 1.0),
        _scored("reconstruction", 5, 0.7, 0.5, 1.0),
        _scored("reconstruction", 2, 0.3, 0.2, -1.0),
    ]
    held_out = [_scored("personal", 5, 0.7, 0.9, -1.0), _scored("personal", 10, 0.9, 0.9, -1.0)]
    (row,) = record.saved({"all links": of_all, "held out": held_out})
    assert (row["score"], row["dimension"], row["mean"]) == ("reconstruction", 5, 0.7)
    assert (row["flat_dimension"], row["bytes"], row["flat_bytes"]) == (10, 500, 1000)
    of_all[0]["methods"]["links at 0"]["mean"] = 0.6
    (row,) = record.saved({"all links": of_all})
    assert (row["flat_dimension"], row["flat_bytes"], row["largest"]) == (None, None, 10)

"""The measuring loop: calls in turn, medians, and the spread of the pairs; exponents of what
grows.
"""

import pytest
import torch

from benchmarks import measure
from benchmarks.measure import Row


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_calls_are_made_in_turn_after_one_of_each_to_warm_up(monkeypatch):
    made = []
    monkeypatch.setattr(measure, "peak_bytes", lambda call: call() or 7)
    row = Row(
        "", "", lambda: (lambda: made.append("ours"), lambda: made.append("theirs")), repeats=3
    )
    found = measure.measure(row)
    assert made == ["ours", "theirs"] * 5  # to warm up, three pairs, for the memory
    assert found.low <= found.ratio <= found.high
    assert (found.ours_bytes, found.theirs_bytes) == (7, 7)


def test_medians_and_the_smallest_and_largest_ratio_of_a_pair():
    ours, theirs = iter([9.0, 2.0, 4.0]), iter([3.0, 2.0, 1.0])
    found = measure.measure(
        Row("", "", lambda: (ours.__next__, theirs.__next__), repeats=3, told=True)
    )
    assert (found.ours, found.theirs, found.ratio) == (4, 2, 2)
    assert (found.low, found.high) == (1, 4)
    assert found.ours_bytes is None


def test_a_budget_is_a_number_of_seconds():
    found = measure.measure(
        Row("", "", lambda: (iter([1.0, 3.0, 2.0]).__next__, 4.0), repeats=3, told=True)
    )
    assert (found.ratio, found.low, found.high, found.theirs) == (0.5, 0.25, 0.75, 4)


def test_what_is_called_often_is_told_by_the_mean_of_the_calls(monkeypatch):
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(measure.time, "perf_counter", clock.__next__)
    assert measure.seconds(lambda: None, calls=5) == 2


def test_memory_is_what_a_call_takes_beyond_what_was_there_before():
    found = measure.peak_bytes(lambda: bytearray(64_000_000).count(1))
    assert found is None or 50e6 < found < 500e6

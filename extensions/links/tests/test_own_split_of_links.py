"""Both directions of a link are one record of a node."""

from typing import Any

import pytest

from curvfed.extensions.links.raw import raw_links
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import open_dataset
from curvfed.tasks.record_split import RecordSplit

pytestmark = pytest.mark.usefixtures("own_home")


def parts(data: Any) -> list[int]:
    return [int(train) + 2 * int(test) for train, test in zip(data.train, data.test, strict=True)]


def test_both_directions_of_a_link_are_in_one_part():
    names = [("a", "b"), ("b", "a"), ("c", "a"), ("b", "d"), ("d", "b"), ("a", "d")]
    dataset = open_dataset(parse({"method": "links"}), "links", RecordSplit(b"x", 0.4, 0.4))
    links = dataset.in_memory(raw_links("test", names))
    part_of = dict(zip(names, parts(links), strict=True))
    assert part_of["a", "b"] == part_of["b", "a"]
    assert part_of["b", "d"] == part_of["d", "b"]
    fewer = [names[index] for index in (0, 2, 5)]
    fewer_parts = parts(dataset.in_memory(raw_links("test", fewer)))
    assert fewer_parts == [part_of[name] for name in fewer]
    all_training = open_dataset(
        parse({"method": "links", "links.hold-out": False}), "links", RecordSplit(b"x", 0.4, 0.4)
    ).in_memory(raw_links("test", names))
    assert all_training.train.all()
    assert all_training.split_digest == links.split_digest

"""Terminal lines, pages and cards of one client and one round do not have their nouns in the plural."""

import re
from html import unescape

import pytest

from curvfed.deployments.commands.command import main
from curvfed.tasks.amounts import amount, be

NOUNS = "clients|nodes|rounds|sums|seeds|classes|images|edges|features|links|entities|examples"
PLURAL_OF_ONE = re.compile(rf"(?<![\w.,-])1 (of 1 )?(test |secure )?({NOUNS})\b")
METHODS = ("fedavg dataset=digits", "flatland dataset=trees", "links")


@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_one_client_and_one_round_is_told_in_the_singular(method, tmp_path, capsys):
    keys = [*f"method={method} num-rounds=1 num-supernodes=1".split()]
    assert main(["check", *keys]) == 0
    assert main(["simulate", *keys, f"results-dir={tmp_path}", "run-name=one"]) == 0
    output = capsys.readouterr()
    text = output.out + output.err
    assert "1 node is connected" in text
    for name in ("report.html", "model-card.md"):
        page = (tmp_path / "one" / name).read_text(encoding="utf-8")
        text += unescape(re.sub("<[^>]*>", " ", page))
    assert "of 1 client" in text
    assert not PLURAL_OF_ONE.search(" ".join(text.split()))


def test_nouns_and_verbs_follow_their_number():
    numbers = (0, 1, 2, "1", "1,001")
    expected = ["0 clients", "1 client", "2 clients", "1 client", "1,001 clients"]
    assert [amount(number, "client") for number in numbers] == expected
    assert [amount(number, "entity") for number in (1, 2)] == ["1 entity", "2 entities"]
    assert [amount(number, "class") for number in (1, 2)] == ["1 class", "2 classes"]
    assert [be(number) for number in (0, 1, 2)] == ["are", "is", "are"]

"""What is said about the split of Cora, which has one: only that another one is drawn."""

from curvfed.deployments.commands.command import main


def test_of_cora_nobody_says_that_it_has_no_split(cora_dir, capsys):
    words = ["check", "method=fedavg", "dataset=cora", f"data-dir={cora_dir}", "num-supernodes=2"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "has no split" not in said
    assert "read: the seed draws the split\n" in said

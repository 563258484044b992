"""TOML files as Windows' editors save them: with a byte-order mark, as UTF-16, with other line
ends."""

from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import pytest

from curvfed.client_app.node.policy import read_policy
from curvfed.deployments.arguments import read_pairs
from curvfed.extensions.cluster.commands.folder import ServerFolder
from curvfed.extensions.cluster.commands.setup import make_cluster
from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.strategies.config.parse import read_settings
from curvfed.strategies.config.run_config import defaults

FORMS: dict[str, Callable[[str], bytes]] = {
    "mark": lambda text: BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "lines": lambda text: BOM_UTF8 + text.replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_settings_sweeps_policies_and_clusters_are_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(FORMS[form]('method = "fedavg"\nnum-rounds = 3\n'))
    assert read_pairs([str(path)], defaults()) == {"method": "fedavg", "num-rounds": 3}
    assert read_settings(path) == {"method": "fedavg", "num-rounds": 3}
    path.write_bytes(FORMS[form]('[settings]\ndataset = "trees"\nseed = [0, 1]\n'))
    assert len(read_plan(path).runs) == 2
    path.write_bytes(FORMS[form]("[sums]\ncontributors = 7\n"))
    assert read_policy(path).sums.contributors == 7
    made = make_cluster(tmp_path / "c", [], ["north"], 9092, 9093, 30).path
    settings = made / "cluster.toml"
    settings.write_bytes(FORMS[form](settings.read_text(encoding="utf-8")))
    assert ServerFolder.open(made).fleet_port == 9092

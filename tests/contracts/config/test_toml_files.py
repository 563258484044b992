"""Settings and policies are read as Windows' editors save them."""

import pytest
from toml_forms import FORMS

from curvfed.client_app.node.policy_file import read_policy
from curvfed.deployments.arguments import read_pairs
from curvfed.strategies.config.parse import read_settings
from curvfed.strategies.config.run_config import defaults


@pytest.mark.parametrize("form", FORMS)
def test_settings_and_policies_are_read(tmp_path, form):
    path = tmp_path / "a.toml"
    path.write_bytes(FORMS[form]('method = "fedavg"\nnum-rounds = 3\n'))
    assert read_pairs([str(path)], defaults()) == {"method": "fedavg", "num-rounds": 3}
    assert read_settings(path) == {"method": "fedavg", "num-rounds": 3}
    path.write_bytes(FORMS[form]("[sums]\ncontributors = 7\n"))
    assert read_policy(path).sums.contributors == 7

"""A report prints nothing of its libraries."""

import os
import subprocess
import sys

import pytest
from tiers import only

AT_ONCE = """
import threading

class Timer(threading.Timer):
    def __init__(self, seconds, *rest):
        super().__init__(0, *rest)

    def start(self):
        self.run()

threading.Timer = Timer
"""
"""matplotlib logs its note five seconds after it has begun to list the fonts."""


PANELS = "from curvfed.server_app.report.style import panels; panels(1)"
OTHERS = [
    "from curvfed.server_app.report.charts import inches; inches('text')",
    "from curvfed.server_app.report.style import applied\nwith applied():\n    pass",
]


@pytest.mark.parametrize("code", only([PANELS, *OTHERS], PANELS.__eq__))
def test_a_new_machine_says_nothing_of_fonts(code, tmp_path):
    env = os.environ | {"MPLCONFIGDIR": str(tmp_path)}
    command = [sys.executable, "-c", AT_ONCE + code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert list(tmp_path.glob("fontlist-*"))

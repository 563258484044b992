"""A run imports its own method and task, and no other."""

import os
import re
import subprocess
import sys

import pytest

RUNS = """
import sys, tempfile, curvfed
for dataset in ("trees", "digits"):
    curvfed.simulate("fedavg", dataset=dataset, num_supernodes=2, num_rounds=1, results_dir=tempfile.mkdtemp(), quiet=True, report=False)
    print(*(name for name, module in sys.modules.items() if name.startswith("curvfed") and getattr(module, "__file__", None)))
"""
"""One run after the other in a process of their own, and the project's files that are imported
then. Names and origins of all public data sets (`sources`) are read, but nothing that reads data."""

UNUSED = {
    "trees": (
        r"tasks\.points\.(?!sources$)|.*secure|.*hull"
        # The packages of an extension's methods are imported when its methods are listed.
        r"|(?!(tasks\.images(\.sources)?|extensions\.lorentz_images(\.methods)?)$).*image"
        r"|.*global_test"
    ),
    "digits": r"tasks\.points\.(?!sources$)|.*secure|.*hull|strategies\.methods\.(hyper|sphere)fed",
}


@pytest.mark.long
def test_a_run_imports_what_it_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUNS],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    for line, unused in zip(done.stdout.splitlines()[-2:], UNUSED.values(), strict=True):
        result = {name.removeprefix("curvfed.") for name in line.split()}
        methods = {name for name in result if name.startswith("strategies.methods.")}
        assert methods == {"strategies.methods.fedavg"}
        assert [name for name in sorted(result) if re.match(unused, name)] == []

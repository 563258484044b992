"""The acceptance tables: what the app must show, run on real data, as bar, value, pass or fail."""

import sys
from pathlib import Path

# Lying clients and the small runs of every method are the tests' own.
sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))

"""The acceptance tables: what the app must show, run on real data, as bar, value, pass or fail."""

import sys
from pathlib import Path

# small runs, clusters and textbook programs
sys.path.append(str(Path(__file__).parents[1] / "support"))

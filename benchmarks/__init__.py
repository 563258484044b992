"""Ratios to limits and peers, and how cost grows."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
# plain loops, textbook programs and peers' maps are oracles there
sys.path.append(str(TESTS / "support"))

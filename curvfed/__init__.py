"""Federated learning in curved spaces, a Flower app.

In a checkout, and in the bundle that Flower ships, the rooms of this package (`strategies`, `geometry`, …) are folders
beside this one, and become its modules here. In an installed wheel they lie below it, and nothing is added.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
if not (_HERE / "strategies").is_dir():
    __path__.append(str(_HERE.parent))

"""Parts of curvfed that can be deleted: each folder is one, with all that is its own.

The core imports none of them, and they do not import each other. The file `entry_points.toml` of an
extension names its additions. The defaults of its keys are in `pyproject.toml` with all others,
because Flower reads them there.
"""

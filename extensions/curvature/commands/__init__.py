"""The command `curvature`, and all that it does."""

"""One file for each method, as in `curvfed.strategies.methods`."""

"""Checks of a server or a node, made before it starts and by `curvfed cluster doctor`."""

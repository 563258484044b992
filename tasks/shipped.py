"""The extensions of the whole package. A copy can lack some of them."""

SHIPPED = {
    "adapt": ("commands", "programs"),
    "baselines": ("method-folders",),
    "cells": ("commands", "method-folders", "formats"),
    "cluster": ("commands",),
    "curvature": ("commands", "graph-curvatures"),
    "encoders": ("image-encoders",),
    "exports": ("commands", "programs"),
    "flower_strategies": ("faces",),
    "formats": ("formats", "foreign"),
    "graph_baselines": ("method-folders", "graph-tasks"),
    "graph_sets": ("formats", "public-data"),
    "image_networks": ("image-networks",),
    "links": ("tasks", "method-folders", "report"),
    "lists": ("commands",),
    "lorentz_images": ("method-folders",),
    "model_code": ("model-code",),
    "node_batches": ("graph-tasks",),
    "privacy": ("guards", "figures"),
    "public_data": ("public-data", "downloads"),
    "reports": ("report", "documents", "sinks", "sink-feeds"),
    "robust": ("aggregations", "aggregation-choices"),
    "sweeps": ("commands",),
    "warnings": ("warnings",),
    "workers": ("simulators",),
}
"""The extensions of the whole package, and the groups that each adds to."""

COMMANDS = "commands"
"""The group of the commands of `curvfed`."""

METHOD_FOLDERS = "method-folders"
"""The group of the folders with a file for each method."""

DATA = ("public-data", "formats", "foreign", "tasks")
"""The groups that add data sets, or that recognise files and folders."""

KEYS = (METHOD_FOLDERS, "aggregations", "aggregation-choices", "guards")
"""The groups that add keys of a run."""

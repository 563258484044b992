"""The `policy.toml` that `curvfed cluster` puts into a node's folder; each line is a comment with
the default."""

POLICY = """\
# What this node gives to a run, whatever the run requests: docs/security.md, "policy.toml".
# Every line is a comment: the default, or an example. Changes take effect with the next message.

[data]
# path = "/srv/cells.h5ad"        # the node's own data; or data-path in its --node-config
# Keys for reading a file of points. A run with other values of its points.* keys is refused:
# label-key = "label"
# embedding-key = "X_poincare"
# classes = ["a", "b"]            # without this line: all classes
# curvature = -1.0
# split-seed = 0                  # without this line: that of the run
# public = ["cora", "digits"]     # default, without own data: any named data set, no path

[runs]
# methods = ["hull", "fedavg"]    # without this line: all
# keys = { "local-epochs" = [1, 2], "hull.epsilon" = { min = 0.01 } }
# lost-state = "refuse"           # lost personal parameters: "refuse", "previous", "fresh"
# A run's "model" of another package, and for public data its "data-dir", must be listed in keys.

[leaves]
# secure-sum = false              # true: its parameters leave it only in secure sums
# share-statistics = false        # without this line: if the run requests them
# hull-max-share = 1.0            # the largest share of its points that its hulls may reveal
# hull-min-class-size = 1         # hull or moments of a class with fewer training points stay here

[sums]
# contributors = 3                # minimum number of nodes in a secure sum
# roster-share = 0.5              # minimum share of the roster that takes part
# threshold-share = 0.5           # more than this share of its nodes must stay to the end
# neighbours = 4                  # minimum number that shares its secrets; default: a safe number
# fixed-groups = false
# nearness = 0.1
"""

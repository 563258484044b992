"""The `policy.toml` that `curvfed cluster` puts into a node's folder: every line a comment that
says the default."""

POLICY = """\
# What this node gives to a run, whatever the run asks for: docs/security.md, "policy.toml".
# Every line is a comment: the default, or an example. Changes take effect with the next message.

[data]
# path = "/srv/cells.h5ad"        # the node's own data; or data-path in its --node-config
# How a file of points is read. A run that has other values of its points.* keys is refused:
# label-key = "label"
# embedding-key = "X_poincare"
# classes = ["a", "b"]            # without this line: all classes
# curvature = -1.0
# split-seed = 0                  # without this line: as the run says
# public = ["cora", "digits"]     # default, without own data: any named data set, no path

[runs]
# methods = ["hull", "fedavg"]    # without this line: all
# keys = { "local-epochs" = [1, 2], "hull.epsilon" = { min = 0.01 } }
# lost-state = "refuse"           # lost personal parameters: "refuse", "previous", "fresh"
# A run's "model" of another package, and for public data its "data-dir", must be listed in keys.

[leaves]
# secure-sum = false              # true: its parameters leave it in secure sums alone
# share-statistics = false        # without this line: if the run asks for it
# hull-max-share = 1.0            # the largest share of its points that its hulls may reveal
# hull-min-class-size = 1         # hull or moments of a class with fewer training points stay here

[sums]
# contributors = 3                # the least number of nodes in a secure sum
# roster-share = 0.5              # the least share of the roster that takes part in it
# threshold-share = 0.5           # more than this share of them must stay to the end
# neighbours = 4                  # least number that shares its secrets; default: what is safe
# fixed-groups = false
# nearness = 0.1
"""

"""What can be wrong with a server or a node, found before it starts or by `curvfed cluster
doctor`.
"""

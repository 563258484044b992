"""Training on a large graph in batches: some clusters of its nodes, with the edges between them."""

"""A client's data: graphs, images or points, of its own or its part of a public data set."""

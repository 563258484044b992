"""The curvature of the clients' graphs, and the gain to expect from the shape of links."""

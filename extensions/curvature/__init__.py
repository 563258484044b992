"""The curvature of the clients' graphs, by Ollivier and by their distances, and the gain to expect
from the shape of links."""

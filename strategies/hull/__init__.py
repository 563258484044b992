"""One-shot federated classification by a secure sum of convex hulls."""

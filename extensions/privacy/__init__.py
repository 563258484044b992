"""Differential privacy: the accountant, private steps, noise on secure sums, and its keys."""

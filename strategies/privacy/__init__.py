"""Differential privacy: what a run may reveal, what it costs, and the noise that pays for it."""

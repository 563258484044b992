"""Frozen networks that turn images into features before a run."""

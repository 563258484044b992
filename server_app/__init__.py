"""Runs in the ServerApp alone."""

"""Runs in the ClientApp alone."""

"""Secure sums at the server: it sees only sums over groups of clients."""

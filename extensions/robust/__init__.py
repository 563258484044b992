"""Aggregations that a minority of false updates moves only a little."""

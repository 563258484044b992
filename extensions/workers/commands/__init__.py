"""The simulator with worker processes."""

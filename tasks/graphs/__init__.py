"""Node classification on graphs."""

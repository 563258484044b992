"""The clients of a simulation in worker processes, with a GPU each if there are some."""

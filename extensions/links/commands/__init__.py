"""Functions about links that only a command line needs."""

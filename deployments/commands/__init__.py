"""The command line: the commands, each with its help."""

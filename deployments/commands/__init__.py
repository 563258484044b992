"""The command line: what can be typed, each command with its help."""

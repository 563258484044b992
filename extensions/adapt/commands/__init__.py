"""The command `adapt`."""

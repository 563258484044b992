"""The command `embed`, and all that it does."""

"""The command `export`, and the programs that it writes."""

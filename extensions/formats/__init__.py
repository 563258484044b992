"""Files of other tools: those that are read, and those that are refused with advice."""

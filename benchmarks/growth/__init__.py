"""How time and memory grow with the size of what is done."""

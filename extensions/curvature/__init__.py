"""How curved the clients' graphs are, and what gain the shape of links lets expect."""

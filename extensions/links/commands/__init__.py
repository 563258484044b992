"""What only a command line needs of links."""

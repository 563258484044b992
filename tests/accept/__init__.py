"""The acceptance tables: what the app must show, run on real data, as bar, value, pass or fail."""

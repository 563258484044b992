"""Lists of the methods, the data sets and the presets."""

"""Commands that list methods, data sets and presets."""

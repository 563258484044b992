"""The code of a network that is not curvfed's, by which a run recognises it."""

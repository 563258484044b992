"""The page of a run: one kit of figures, and templates; sweeps take their figures and pages from it
too."""

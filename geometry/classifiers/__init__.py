"""What the classifiers of points have in common: their base, margins, probabilities, and the choice
of C."""

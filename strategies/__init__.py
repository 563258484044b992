"""Code that both apps share: configuration, methods, messages, cohorts and aggregation."""

import os

# Without it MKL's sums depend on where in memory their operands happen to lie, and equal seeds give
# unequal bits on some processors. Unless it is strict, they depend on some on the number of rows
# beside them, too: one record would change how the gradients of others are rounded. It is read at
# the first sum, so here is early enough. A user's own choice stays.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

"""The best method for a data set: all are tuned by validation with equal budgets, then compared on
fresh seeds."""

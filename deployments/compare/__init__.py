"""Which method for these data: each is tuned by validation with an equal budget, then compared on
fresh seeds."""

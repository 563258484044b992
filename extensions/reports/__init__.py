"""Reports: further pictures and tables of a run's page, the model card, and trackers."""

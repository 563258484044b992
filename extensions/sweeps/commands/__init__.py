"""The commands `sweep`, `report` and `compare`, and all that they do."""

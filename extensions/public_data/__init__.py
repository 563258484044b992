"""The public data sets by name, which are downloaded where they are absent."""

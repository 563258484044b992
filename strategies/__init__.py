"""What both apps share: configuration, methods, messages, cohorts and aggregation."""

"""A node's own side: its configuration, policy, keys, roster and ledger."""

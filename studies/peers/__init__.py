"""Other libraries' own code on our clients, each run beside ours at the same settings:
docs/parity.md."""

"""A client that joins a finished run: its personal part is trained, the shared part is fixed."""

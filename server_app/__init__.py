"""Code that runs only in the ServerApp."""

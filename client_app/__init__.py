"""Code that runs only in the ClientApp."""

"""Methods with a Lorentz classifier of images."""

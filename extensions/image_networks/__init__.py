"""Further networks for images, those of the tables of SphereFed and HyperFed."""

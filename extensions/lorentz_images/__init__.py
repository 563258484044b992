"""FlatLand on images: a Lorentz classifier on a network for images, as we read its Appendix E.2."""

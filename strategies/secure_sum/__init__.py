"""Sums of integer vectors modulo a prime that show a server nothing but the sum (Bonawitz et al.,
CCS 2017)."""

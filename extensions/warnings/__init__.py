"""Sentences that say why the figures of a run may mislead."""

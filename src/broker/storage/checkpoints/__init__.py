"""Small files that a start reads: written whole, replaced at once."""

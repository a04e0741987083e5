"""What the requests mean, for both dialects."""

"""Instructions per call of a few kernels, counted by callgrind."""

"""Instructions per call of ten kernels, counted by callgrind: what no noise of a machine hides."""

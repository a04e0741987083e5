"""The benchmarks of `make bench` and `make bench-...`. They are not installed."""

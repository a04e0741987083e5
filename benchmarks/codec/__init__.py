"""What the codec costs beside its peers: pytest benchmarks/codec -o python_files='bench_*.py'."""

"""The codec compared with other libraries: pytest benchmarks/codec -o python_files='bench_*.py'."""

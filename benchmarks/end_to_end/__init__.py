"""A real broker process under a load generator in C, beside the least a broker can do.

=============  ==================================================================
`bench.py`     the command: options, progress, exit code
`rows.py`      the table of workloads and what each should reach
`trials.py`    one run of a workload against one target, with its costs
`lifecycle.py` what is measured of a process of its own: start, idle, after kill -9
`targets.py`   starting and stopping the broker, the floor program, Apache Kafka
`machine.py`   processor time, memory and dirty pages from the kernel
`report.py`    medians and ratios, the table, the JSON file
=============  ==================================================================
"""

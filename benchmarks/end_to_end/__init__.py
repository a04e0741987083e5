"""A real broker process under a load generator in C, compared with a minimal server (the floor).

=============  ==================================================================
`bench.py`     the command: options, progress, exit code
`rows.py`      the table of workloads and their goals
`trials.py`    one run of a workload against one target, with its costs
`lifecycle.py` rows with a process of their own: start, idle memory, recovery
`targets.py`   starting and stopping the broker, the floor program, Apache Kafka
`machine.py`   processor time, memory and dirty pages from the kernel
`report.py`    medians and ratios, the table, the JSON file
`load/`        the load generator: a mode for each file
`floor/`       the floor program
`wire/`        Kafka's protocol as both of them use it
=============  ==================================================================
"""

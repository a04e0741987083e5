"""What the broker measures, and how it is shown.

registry.py    every metric: name, kind, labels, what it means, its names in Kafka's tools
counters.py    what Python code counts; native code counts in its own structs
totals.py      sums over logs, which never fall
time_lags.py   how old the records are that groups have not committed
group_lags.py  how far groups are behind
remote_ends.py ends of partitions that only other brokers have, asked for beside the pages
end_times.py   when the records of such a partition were made, estimated
collect.py     from a metric to its values, with walks over partitions, groups and transactions
text.py        from values to Prometheus' text, or OpenMetrics
pages.py       the two pages, made once for all who ask within a second
measured.py    what of this a broker has
"""

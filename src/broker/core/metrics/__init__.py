"""What the broker measures, and how it is shown.

    registry.py    every metric: name, kind, labels, what it means, its names in Kafka's tools
    counters.py    what Python code counts; native code counts in its own structs
    partitions.py  one walk over all partitions, in steps
    groups.py      one walk over all groups, in steps
    collect.py     from a metric to its values
    text.py        from values to Prometheus' text, or OpenMetrics
    pages.py       the two pages, made once for all who ask within a second
    dashboards.py  Grafana's dashboards, from the registry
    alerts.py      Prometheus' alert rules, from the registry
"""

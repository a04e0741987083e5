"""Metrics pushed to an OpenTelemetry collector, by OTLP over HTTP.

    exporting.py   the service: makes pages of metrics and gives them to the process
    process.py     the process, which sends what a page has; only it imports OpenTelemetry's SDK
    points.py      from a page to the values of the registry's metrics

The SDK encodes messages in Python. In a thread of the broker it would take the GIL from the event
loop for milliseconds at a time, so it is in a process of its own, which the broker starts only if
`polylog.otlp.endpoint` is set.
"""

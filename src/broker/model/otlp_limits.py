"""Limits of the export of metrics by OTLP."""

OTLP_INTERVAL_MS_MIN = 1_000
OTLP_REPORT_BYTES_MAX = 64 << 10  # a line of its process
# Of a reason in it: some versions of the SDK report all that the collector has answered.
OTLP_REASON_CHARS_MAX = 500
# Beyond the time limit of a request: the process starts, reads a page and encodes it.
OTLP_SPARE_SECONDS = 30

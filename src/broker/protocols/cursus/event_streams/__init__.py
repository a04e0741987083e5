"""Streams of events: one per key, in topics with polylog.event.sourcing.

An event is a record with the stream's key and a header with its version: 1, 2, 3 and so on. A
snapshot is a record with a header that names the version it was made at. The log is the truth;
`file` finds a stream's records in it, `loading` makes the file from the log, `partition_streams`
decides versions, and `tables` follows leadership and writes the file behind the appends.
"""

"""`broker import v1`: a client of the broker that copies the data of V1's original server.

command.py      options, topics, records, committed offsets
directory.py    segment files → records and damaged lines
offset_map.py   original offsets → offsets here
report.py       what was imported, and what could not be
"""

"""What the import commands of all protocols share: they are clients of a running broker.

target.py       topics that are created, records that are written
commits.py      committed offsets
offset_map.py   original offsets → offsets here
report.py       what was imported, and what could not be
folder.py       a folder that cannot be read
options.py      options that every import has
"""

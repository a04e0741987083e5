"""V1's groups in the files of its original server, in the data directory.

files.py          groups.json and offsets.json, read and written
copies.py         replaces them after a change of a group
group_import.py   imports them once, at a start without `__consumer_offsets`
"""

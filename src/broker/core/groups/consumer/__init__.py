"""Consumer groups (KIP-848): the broker assigns partitions, members reconcile.

group.py        the state machine of one group; checks.py its validation of heartbeats
group_update.py the changes of one command
membership.py   the state of a group from the log, and what is derived from it: partition owners
subscriptions.py  the topics that a group is subscribed to, and a hash to detect changes
reconcile.py    one member's next step towards its target assignment
planning.py     group epochs and target assignments after a change
targets.py      a new target assignment for all members, computed in slices
assignors.py    the assignors by name: uniform.py, range_assignor.py
regex.py        subscriptions by regular expression, in RE2's syntax
classic_members.py   members that use the classic protocol
"""

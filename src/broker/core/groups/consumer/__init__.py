"""The groups of the new consumer protocol (KIP-848): the broker assigns, members reconcile.

commands.py     what is asked and answered
records.py      what is remembered, in Kafka's own record formats
group.py        the state machine of one group
membership.py   what the log says of a group, and what follows from it: who owns which partition
subscriptions.py  topics that a group is subscribed to, and whether they have changed
reconcile.py    one member's next step towards its target
targets.py      a new target for all members, computed in slices
uniform.py, range_assignor.py   the assignors
regex.py        subscriptions by pattern, RE2's syntax
classic_members.py   members that still speak the classic protocol; migration.py: whole groups
"""

"""Groups whose partitions the broker assigns at once: those of V1 (v1.md 1.6) and Cursus.

commands.py   what is asked and answered
assignors.py  which member gets which partitions
images.py     what is remembered, in Kafka's record of a classic group
draft.py      a group as a command will leave it
rejoining.py  whom somebody goes on as that was told to join again: Cursus's
group.py      the state machine of one group
shard.py      the commands to all such groups of one coordinator partition
"""

"""What is stored in `__consumer_offsets`, in Kafka's record formats.

classic.py    a classic group: generation and members; assigned groups are stored in it too
consumer.py   a consumer group (KIP-848)
offsets.py    a committed offset
encoding.py   all records, and their keys and values
"""

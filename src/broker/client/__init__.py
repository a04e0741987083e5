"""A small blocking Kafka client, for commands and for the tasks of Spark: no loop, no threads.

    connection   one connection, one request at a time
    pool         connections that wait for their next user, of this process
    retry        how long a request is tried again, and what a broker's refusal is raised as
    metadata     topics, their ids and partitions, and which broker leads what
    offsets      where a partition begins and ends, offsets by time, offsets of groups
    fetch        the bytes of one partition's range of offsets, chunk by chunk
    produce      encoded batches to the leaders of their partitions
    transactions ids of producers, and the transactions of one of them
    admin        topics made and looked at
    coordinators which broker coordinates a group or a transactional id

Every call blocks, has a time limit, and raises errors that name the address:

    cluster = Cluster([Address("127.0.0.1", 9092)])
    clicks = cluster.topics(["clicks"])["clicks"]
    ends = list_offsets(cluster, {("clicks", each): LATEST for each in clicks.partitions})
    for chunk in fetch(cluster, Range("clicks", clicks.topic_id, 0, 0, ends["clicks", 0].offset)):
        codec.decode_columns(chunk.data)

Any broker that speaks Kafka's protocol will do; versions are agreed upon per connection.
"""

"""A small blocking Kafka client for commands and Spark tasks: no event loop, no threads.

It is internal: the command line, `broker.pipeline` and `broker.testing` use it, and it changes with
them. Programs use a Kafka client of their own, which any broker serves; what such a client leaves
open is public: `broker.codec` for bytes and Arrow, `broker.pipeline` for exact offset ranges.

    connection   one connection, one request at a time
    pool         idle connections of this process
    retry        retries, and the mapping of error codes to exceptions
    metadata     topics, their ids and partitions; requests to brokers and to leaders
    offsets      start and end offsets, offsets by timestamp, committed offsets
    fetch        the batches of an offset range of one partition, in chunks
    produce      records → batches of a producer, and these to the leaders of their partitions
    transactions producer ids, and the transactions of one producer
    admin        creation of topics, and their settings
    coordinators the coordinator of a group or a transactional id
    brokers      the brokers, what they support, the state of partitions and directories
    groups       the list of groups, members, deletion, committed offsets that are set
    lag          how far groups are behind, in records, in time and in what retention leaves
    configs      the settings of topics, brokers and groups
    transaction_admin   transactions from outside, and the abortion of hanging ones

Every call blocks, has a timeout, and raises errors that name the address:

    cluster = Cluster([Address("127.0.0.1", 9092)])
    clicks = cluster.topics(["clicks"])["clicks"]
    ends = list_offsets(cluster, {("clicks", each): LATEST for each in clicks.partitions})
    for chunk in fetch(cluster, Range("clicks", clicks.topic_id, 0, 0, ends["clicks", 0].offset)):
        codec.decode_columns(chunk.data)

It works with every broker that speaks Kafka's protocol; versions are negotiated per connection.
"""

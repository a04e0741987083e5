"""Every metric, in one table.

Pages, docs/metrics.md, dashboards and alert rules come from it, and tests compare the rest with it.
Names follow Prometheus' rules: base units, `_total` for counters. Aliases are the names under which
the usual JMX exporter rules show Kafka's own metrics, and those of kafka_exporter: dashboards that
were made for Kafka show this broker with them.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Alias(NamedTuple):
    """Another name of a metric.

    Attributes:
        name: in lower case, as exporters write it.
        labels: their names for the labels of the metric, in its order.
        fixed: labels that it has beside them.

    That of a histogram has its count.
    """

    name: str
    labels: tuple[str, ...] = ()
    fixed: Mapping[str, str] = {}


class Metric(NamedTuple):
    """A row of the table.

    Attributes:
        name: begins with polylog_.
        kind: counter, gauge or histogram.
        text: what it measures, in one sentence.
        labels: their names.
        unit: of OpenMetrics, a suffix of the name (before _total); empty for none.
        is_small: whether it is on /metrics, too: its series are few, and name no topic or group.
        aliases: its other names.
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    is_small: bool = True
    aliases: tuple[Alias, ...] = ()


_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")
_API: Final = ("api",)
_GROUP: Final = ("group", "topic", "partition")
_EXPORTER_GROUP: Final = ("consumergroup", "topic", "partition")
_BROKER_TOPIC: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_REQUEST: Final = "kafka_network_requestmetrics_"
_SOCKETS: Final = "kafka_server_socket_server_metrics_"


def _also(name: str, *labels: str, **fixed: str) -> tuple[Alias, ...]:
    return (Alias(name, labels, fixed),)


# Formatted by hand, so that rows stay short.
# fmt: off
_TRAFFIC = (
    Metric("polylog_records_in_total", _C, "Records appended as the leader of their partition."),
    Metric("polylog_appended_bytes_total", _C, "Bytes of batches appended as the leader.",
           unit="bytes"),
    Metric("polylog_read_bytes_total", _C, "Bytes of batches that readers were given.",
           unit="bytes"),
    Metric("polylog_copied_bytes_total", _C, "Bytes of batches copied from other brokers.",
           unit="bytes", aliases=_also(_BROKER_TOPIC + "replicationbytesin_total")),
    Metric("polylog_topic_records_in_total", _C, "Records appended to a topic.", _TOPIC,
           is_small=False, aliases=_also(_BROKER_TOPIC + "messagesin_total", "topic")),
    Metric("polylog_topic_appended_bytes_total", _C, "Bytes of batches appended to a topic.",
           _TOPIC, "bytes", False, _also(_BROKER_TOPIC + "bytesin_total", "topic")),
    Metric("polylog_topic_read_bytes_total", _C, "Bytes of batches read from a topic.", _TOPIC,
           "bytes", False, _also(_BROKER_TOPIC + "bytesout_total", "topic")),
    Metric("polylog_failed_writes_total", _C,
           "Batches that were refused, or not acknowledged; of Kafka's protocol."),
    Metric("polylog_rejected_bytes_total", _C, "Bytes of the batches that were refused.",
           unit="bytes"),
    Metric("polylog_failed_reads_total", _C,
           "Partitions of Fetch requests that were answered with an error."),
    Metric("polylog_topic_failed_writes_total", _C,
           "Batches for a topic that were refused, or not acknowledged.", _TOPIC, is_small=False,
           aliases=_also(_BROKER_TOPIC + "failedproducerequests_total", "topic")),
    Metric("polylog_topic_rejected_bytes_total", _C,
           "Bytes of the batches for a topic that were refused.", _TOPIC, "bytes", False,
           _also(_BROKER_TOPIC + "bytesrejected_total", "topic")),
    Metric("polylog_topic_failed_reads_total", _C,
           "Fetches of a topic's partitions that were answered with an error.", _TOPIC,
           is_small=False, aliases=_also(_BROKER_TOPIC + "failedfetchrequests_total", "topic")),
)
_REQUESTS = (
    Metric("polylog_requests_total", _C, "Requests of Kafka's protocol.", ("api", "version"),
           aliases=_also(_REQUEST + "requests_total", "request", "version")),
    Metric("polylog_request_errors_total", _C,
           "Errors in answers of Kafka's protocol: of requests, and of each of their parts.",
           ("api", "error"), aliases=_also(_REQUEST + "errors_total", "request", "error")),
    Metric("polylog_protocol_requests_total", _C, "Requests by protocol.", ("protocol",)),
    Metric("polylog_request_seconds", _H,
           "From the turn in which a request was read to the one in which it is answered.", _API,
           "seconds", aliases=_also(_REQUEST + "totaltimems_count", "request")),
    Metric("polylog_request_queue_seconds", _H,
           "Wait of a request for the Python handlers; native paths have no queue.", _API,
           "seconds"),
    Metric("polylog_request_local_seconds", _H,
           "Work on a request; of native paths a sample, one in 64.", _API, "seconds"),
    Metric("polylog_request_remote_seconds", _H,
           "Wait of a request for the disk, for replicas, or for records.", _API, "seconds"),
    Metric("polylog_response_send_seconds", _H,
           "Time until the socket has taken a connection's answers.", unit="seconds"),
    Metric("polylog_request_queue_size", _G, "Requests that wait for the Python handlers.",
           aliases=_also("kafka_network_requestchannel_requestqueuesize")),
    Metric("polylog_waiting_requests", _G,
           "Requests that wait for records, streams, and clients that are made to rest.",
           ("operation",),
           aliases=_also("kafka_server_delayedoperationpurgatory_purgatorysize",
                         "delayedoperation")),
)
_LOOP = (
    Metric("polylog_loop_busy_ratio", _G,
           "Share of time in which the event loop worked, since the page before.", unit="ratio"),
    Metric("polylog_handler_idle_ratio", _G, "The rest of it: what is left for more requests.",
           unit="ratio",
           aliases=(Alias("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"),
                    Alias("kafka_network_socketserver_networkprocessoravgidle_percent"))),
    Metric("polylog_loop_cpu_seconds_total", _C, "Processor time of the event loop's thread.",
           unit="seconds"),
    Metric("polylog_loop_turns_total", _C, "Turns in which a socket was ready."),
)
_CONNECTIONS = (
    Metric("polylog_connections", _G, "Connections of clients.", ("listener",),
           aliases=_also(_SOCKETS + "connection_count", "listener")),
    Metric("polylog_connections_accepted_total", _C, "Connections accepted.", ("listener",),
           aliases=_also(_SOCKETS + "connection_creation_total", "listener")),
    Metric("polylog_connections_closed_total", _C, "Connections closed, and why.",
           ("listener", "reason"),
           aliases=_also(_SOCKETS + "connection_close_total", "listener", "reason")),
    Metric("polylog_connections_refused_total", _C, "Connections that were not accepted, and why.",
           ("reason",)),
    Metric("polylog_received_bytes_total", _C, "Bytes received from sockets.", unit="bytes",
           aliases=_also(_SOCKETS + "incoming_byte_total")),
    Metric("polylog_sent_bytes_total", _C, "Bytes sent to sockets.", unit="bytes",
           aliases=_also(_SOCKETS + "outgoing_byte_total")),
)
_SECURITY = (
    Metric("polylog_logins_total", _C, "Logins that have succeeded.", ("listener", "mechanism"),
           aliases=_also(_SOCKETS + "successful_authentication_total", "listener", "mechanism")),
    Metric("polylog_login_failures_total", _C, "Logins that have failed, and why.",
           ("listener", "mechanism", "reason"),
           aliases=_also(_SOCKETS + "failed_authentication_total", "listener", "mechanism",
                         "reason")),
    Metric("polylog_throttles_total", _C, "Requests after which a client above a quota rests."),
    Metric("polylog_throttled_seconds_total", _C, "How long these rests were, in all.",
           unit="seconds"),
    Metric("polylog_tls_failures_total", _C, "Handshakes of TLS that have failed.",
           ("listener",)),
    Metric("polylog_certificate_expiry_timestamp_seconds", _G,
           "When a listener's certificate expires, as a Unix time.", ("listener",), "seconds"),
)
_CLUSTER = (
    Metric("polylog_topics", _G, "Topics of the cluster.",
           aliases=_also(_CONTROLLER + "globaltopiccount")),
    Metric("polylog_cluster_partitions", _G, "Partitions of the cluster.",
           aliases=_also(_CONTROLLER + "globalpartitioncount")),
    Metric("polylog_brokers", _G, "Brokers that are registered.", aliases=_also("kafka_brokers")),
    Metric("polylog_controller", _G, "1 if this broker is the controller, else 0.",
           aliases=_also(_CONTROLLER + "activecontrollercount")),
    Metric("polylog_partitions", _G, "Partitions of which this broker has a copy.",
           aliases=_also(_REPLICAS + "partitioncount")),
    Metric("polylog_leaders", _G, "Partitions that this broker leads.",
           aliases=_also(_REPLICAS + "leadercount")),
    Metric("polylog_under_replicated_partitions", _G,
           "Partitions led here that have replicas which are not in sync.",
           aliases=_also(_REPLICAS + "underreplicatedpartitions")),
    Metric("polylog_under_min_isr_partitions", _G,
           "Partitions led here with fewer replicas in sync than min.insync.replicas.",
           aliases=_also(_REPLICAS + "underminisrpartitioncount")),
    Metric("polylog_at_min_isr_partitions", _G,
           "Partitions led here with several replicas, of which just min.insync.replicas are in"
           " sync.", aliases=_also(_REPLICAS + "atminisrpartitioncount")),
    Metric("polylog_replica_lag_records", _G,
           "Offsets that the replica furthest behind lacks, of partitions led here.",
           aliases=_also("kafka_server_replicafetchermanager_maxlag")),
    Metric("polylog_offline_partitions", _G, "Partitions of the cluster that nobody leads.",
           aliases=_also(_CONTROLLER + "offlinepartitionscount")),
    Metric("polylog_offline_logs", _G, "Logs of this broker whose files have failed.",
           aliases=_also(_REPLICAS + "offlinereplicacount")),
    Metric("polylog_damaged_logs", _G,
           "Logs of this broker with damaged records, which are not served; all others are."),
)
_CHANGES = (
    Metric("polylog_leader_elections_total", _C,
           "Elections that have made this broker the leader of a partition."),
    Metric("polylog_unclean_leader_elections_total", _C,
           "Those of them in which it might not have had all records.",
           aliases=_also("kafka_controller_controllerstats_uncleanleaderelections_total")),
    Metric("polylog_isr_shrinks_total", _C,
           "Changes of partitions led here after which fewer replicas are in sync.",
           aliases=_also(_REPLICAS + "isrshrinks_total")),
    Metric("polylog_isr_expansions_total", _C,
           "Changes of partitions led here after which more replicas are in sync.",
           aliases=_also(_REPLICAS + "isrexpands_total")),
)
_LOGS = (
    Metric("polylog_log_start_offset", _G, "The first offset of a partition that is kept.",
           _PARTITION, "", False,
           (Alias("kafka_log_log_logstartoffset", _PARTITION),
            Alias("kafka_topic_partition_oldest_offset", _PARTITION))),
    Metric("polylog_log_end_offset", _G, "The offset of a partition's next record.", _PARTITION,
           "", False,
           (Alias("kafka_log_log_logendoffset", _PARTITION),
            Alias("kafka_topic_partition_current_offset", _PARTITION))),
    Metric("polylog_log_size_bytes", _G, "Bytes of a partition's segments.", _PARTITION, "bytes",
           False, _also("kafka_log_log_size", *_PARTITION)),
    Metric("polylog_log_segments", _G, "Segments of a partition.", _PARTITION, "", False,
           _also("kafka_log_log_numlogsegments", *_PARTITION)),
    Metric("polylog_logs_size_bytes", _G, "Bytes of all segments of this broker.", unit="bytes"),
    Metric("polylog_log_sync_seconds", _H, "How long syncs of logs have taken (fdatasync).",
           unit="seconds",
           aliases=_also("kafka_log_logflushstats_logflushrateandtimems_count")),
    Metric("polylog_log_unsynced_bytes", _G, "Bytes that are appended and not synced yet.",
           unit="bytes"),
)
_RESOURCES = (
    Metric("polylog_disk_total_bytes", _G, "Size of the data directory's file system.", ("dir",),
           "bytes"),
    Metric("polylog_disk_free_bytes", _G, "What of it is free.", ("dir",), "bytes"),
    Metric("polylog_disk_level", _G,
           "0 normal, 1 low, 2 expired segments go at once, 3 records are refused, 4 read only.",
           ("dir",)),
    Metric("polylog_memory_used_bytes", _G, "Memory of a pool that is in use.", ("pool",), "bytes"),
    Metric("polylog_memory_limit_bytes", _G, "The limit of a pool.", ("pool",), "bytes"),
    Metric("polylog_open_fds", _G, "Open file descriptors.", aliases=_also("process_open_fds")),
    Metric("polylog_max_fds", _G, "How many there may be.", aliases=_also("process_max_fds")),
    Metric("polylog_resident_memory_bytes", _G, "Memory of the process.", unit="bytes",
           aliases=_also("process_resident_memory_bytes")),
    Metric("polylog_cpu_seconds_total", _C, "Processor time of all threads.", unit="seconds",
           aliases=_also("process_cpu_seconds_total")),
    Metric("polylog_clock_jumps_total", _C,
           "Steps of the wall clock; until each is undone or confirmed nothing is deleted by age."),
    Metric("polylog_clock_held", _G,
           "1 while the wall clock is not believed after a step, else 0."),
    Metric("polylog_uptime_seconds", _G, "Time since the start.", unit="seconds"),
    Metric("polylog_start_timestamp_seconds", _G, "When it was started, as a Unix time.",
           unit="seconds", aliases=_also("process_start_time_seconds")),
    Metric("polylog_build_info", _G, "Always 1; the labels are the versions.",
           ("version", "python", "node_id")),
    Metric("polylog_metrics_left_out", _G,
           "Series that are not on this page: it has limits, and some lags are not known.",
           ("family",)),
    Metric("polylog_otlp_exports_total", _C,
           "Pages of metrics for the collector of polylog.otlp.endpoint, sent or failed.",
           ("result",)),
    Metric("polylog_metrics_seconds", _G, "How long this page has taken, with other work between.",
           unit="seconds"),
)
_TRANSACTIONS = (
    Metric("polylog_open_transactions", _G, "Open transactions that this broker coordinates."),
    Metric("polylog_oldest_transaction_seconds", _G,
           "How long the oldest of them has been open; 0 without any.", unit="seconds"),
)
_GROUPS = (
    Metric("polylog_groups", _G, "Groups that this broker coordinates.", ("state",)),
    Metric("polylog_group_members", _G, "Members of a group.", ("group",), "", False,
           _also("kafka_consumergroup_members", "consumergroup")),
    Metric("polylog_group_state", _G, "1 for the state of a group.", ("group", "state"), "", False),
    Metric("polylog_group_rebalances_total", _C,
           "Generation or epoch of a group: it grows with each rebalance.", ("group",), "", False),
    Metric("polylog_group_offset", _G, "The next offset that a group has committed.", _GROUP, "",
           False, _also("kafka_consumergroup_current_offset", *_EXPORTER_GROUP)),
    Metric("polylog_group_lag_ratio", _G,
           "The lag as a share of the offsets that are kept; above 1 some are deleted unread.",
           _GROUP, "ratio", False),
    Metric("polylog_group_lag_seconds", _G,
           "Age of the first record that a group has not committed; 0 if there is none.", _GROUP,
           "seconds", False,
           _also("kafka_consumergroup_group_lag_seconds", "group", "topic", "partition")),
    Metric("polylog_group_lag_records", _G,
           "Offsets from there to the end of what may be read.", _GROUP, "", False,
           _also("kafka_consumergroup_lag", *_EXPORTER_GROUP)),
)
# fmt: on

METRICS: Final[Mapping[str, Metric]] = {
    each.name: each
    for each in (
        *_TRAFFIC,
        *_REQUESTS,
        *_LOOP,
        *_CONNECTIONS,
        *_SECURITY,
        *_CLUSTER,
        *_CHANGES,
        *_LOGS,
        *_RESOURCES,
        *_TRANSACTIONS,
        *_GROUPS,
    )
}

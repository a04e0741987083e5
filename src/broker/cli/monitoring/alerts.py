"""The alert rules, each with what to do when it fires."""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

_PAGE: Final = "docs/metrics.md"


class Alert(NamedTuple):
    """A rule.

    Attributes:
        name: of the alert.
        is_critical: whether clients are affected now; the others are warnings.
        expression: in PromQL; the alert fires where it has a result.
        minutes: for how long it must have one.
        summary: what is wrong, in one sentence.
        advice: what to do.
    """

    name: str
    is_critical: bool
    expression: str
    minutes: int
    summary: str
    advice: str

    @property
    def severity(self) -> str:
        """Its label."""
        return "critical" if self.is_critical else "warning"


def _p99(histogram: str, matchers: str = "") -> str:
    rate = f"rate({histogram}_bucket{matchers}[5m])"
    return f"histogram_quantile(0.99, sum by (instance, le) ({rate}))"


ALERTS: Final = (
    Alert(
        "PolylogOfflinePartitions",
        True,
        "max by (job) (polylog_offline_partitions) > 0",
        1,
        "Nobody leads some partitions: they can be neither read nor written.",
        "`/health/cluster` names them. Start the brokers that have their replicas. If the last"
        " one in sync is lost, an unclean election loses records: `kafka-leader-election.sh"
        " --election-type unclean`.",
    ),
    Alert(
        "PolylogOfflineLogs",
        True,
        "polylog_offline_logs > 0",
        1,
        "Files of logs have failed on a broker.",
        "The broker's log names the file and the error. Check the disk, then restart the broker;"
        " `broker segment verify` finds what is damaged.",
    ),
    Alert(
        "PolylogDamagedRecords",
        True,
        "polylog_damaged_logs > 0",
        1,
        "A disk has changed records of closed segments: they are not served, all others are.",
        "`/health/cluster` names the partitions; docs/operations.md, Damaged records, says how to"
        " go on. Check the disk and the memory.",
    ),
    Alert(
        "PolylogUnderMinIsr",
        True,
        "polylog_under_min_isr_partitions > 0",
        2,
        "Writes with acks=all to some partitions are refused.",
        "Start the brokers that are missing, or look for what slows their replicas: disk, network.",
    ),
    Alert(
        "PolylogUnderReplicated",
        False,
        "polylog_under_replicated_partitions > 0",
        10,
        "Some replicas are not in sync.",
        "Look whether a broker is down or restarting, and at the disk and the network of one that"
        " lags.",
    ),
    Alert(
        "PolylogUncleanElection",
        True,
        "increase(polylog_unclean_leader_elections_total[15m]) > 0",
        0,
        "A broker that might not have had all records became a leader: some may be lost.",
        "The log of the controller names the partition and the brokers. Compare the ends of its"
        " topics with what producers know; take what is lost from the former leader's disk.",
    ),
    Alert(
        "PolylogNoController",
        True,
        "sum by (job) (polylog_controller) != 1",
        5,
        "There is not exactly one controller among the brokers that are scraped.",
        "Check that all brokers of the cluster are scraped in this job, that they reach the"
        " metadata store, and that it answers.",
    ),
    Alert(
        "PolylogDiskLow",
        False,
        "polylog_disk_level >= 1 and polylog_disk_level < 3",
        5,
        "The disk of a data directory is running out of space.",
        "Shorten `retention.ms` or `retention.bytes` of large topics (`broker topic list`), delete"
        " topics, or enlarge the disk.",
    ),
    Alert(
        "PolylogDiskFull",
        True,
        "polylog_disk_level >= 3",
        0,
        "The disk is full: records are refused.",
        "Free space as for PolylogDiskLow. The broker accepts records again by itself within"
        " seconds; clients repeat what was refused.",
    ),
    Alert(
        "PolylogDiskFullSoon",
        False,
        "predict_linear(polylog_disk_free_bytes[6h], 345600) < 0",
        60,
        "At the rate of the last hours the disk is full within four days.",
        "Find the topics that grow (dashboard of topics); then as for PolylogDiskLow.",
    ),
    Alert(
        "PolylogGroupLagGrows",
        False,
        "sum by (instance, group, topic) (polylog_group_lag_records) > 10000 and"
        " sum by (instance, group, topic) (delta(polylog_group_lag_records[30m])) > 0",
        30,
        "A group falls behind: it reads more slowly than is written.",
        "`broker group describe GROUP` shows its members and the lag of each partition. Add members"
        " (up to one for each partition), or find what slows their work.",
    ),
    Alert(
        "PolylogGroupIsLate",
        False,
        "max by (instance, group, topic) (polylog_group_lag_seconds) > 1800",
        15,
        "A group has not read records that are more than half an hour old.",
        "As for PolylogGroupLagGrows. If nobody reads with this group any more, delete it:"
        " `broker group delete GROUP`.",
    ),
    Alert(
        "PolylogGroupLosesRecords",
        True,
        "polylog_group_lag_ratio > 0.8 and on (job, topic, partition) polylog_log_start_offset > 0",
        15,
        "Retention nearly deletes records that a group has not read yet.",
        "Lengthen `retention.ms` or `retention.bytes` of the topic until the group has caught up;"
        " then as for PolylogGroupLagGrows.",
    ),
    Alert(
        "PolylogServerErrors",
        True,
        "sum by (instance, api)"
        ' (rate(polylog_request_errors_total{error="UNKNOWN_SERVER_ERROR"}[5m])) > 0',
        5,
        "A broker answers requests with an error of its own.",
        "Its log has the reason (`request failed in the broker`). Please report it, with"
        " `broker debug bundle`.",
    ),
    Alert(
        "PolylogRequestErrors",
        False,
        "sum by (instance, api) (rate(polylog_request_errors_total[5m]))"
        " / sum by (instance, api) (rate(polylog_requests_total[5m])) > 0.2",
        10,
        "More than one in five requests of an API has an error in its answer.",
        "`sum by (api, error) (rate(polylog_request_errors_total[5m]))` says which errors;"
        " `broker client list` shows who is connected. Missing topics and rights are the usual"
        " reasons.",
    ),
    Alert(
        "PolylogClockStepped",
        False,
        "polylog_clock_held > 0",
        1,
        "The wall clock of a broker has stepped: nothing is deleted by age.",
        "Set the clock right. If it is right now, confirm it: the broker's log has the command"
        " (`the wall clock has stepped`).",
    ),
    Alert(
        "PolylogExportFails",
        False,
        'sum by (instance) (increase(polylog_otlp_exports_total{result="failed"}[15m])) > 2',
        15,
        "Metrics do not reach the collector.",
        "The log of the broker has the reason (`metrics were not sent`). Check the collector, and"
        " `polylog.otlp.endpoint`.",
    ),
    Alert(
        "PolylogLoginFailures",
        False,
        "sum by (instance) (rate(polylog_login_failures_total[5m])) > 1",
        5,
        "Many logins fail: a client has a wrong password, or somebody guesses.",
        "The log has the address and the reason of each (`login failed`). Mend the client, or block"
        " the address.",
    ),
    Alert(
        "PolylogCertificateExpires",
        False,
        "polylog_certificate_expiry_timestamp_seconds - time() < 1209600",
        60,
        "A listener's certificate expires within 14 days.",
        "Replace the files of its keys; the broker reads them again by itself.",
    ),
    Alert(
        "PolylogOldTransaction",
        False,
        "polylog_oldest_transaction_seconds > 900",
        5,
        "A transaction has been open for more than 15 minutes: readers of committed records wait.",
        "`kafka-transactions.sh list` shows it, `kafka-transactions.sh abort` ends it. Look at why"
        " its producer neither commits nor ends, and at its `transaction.timeout.ms`.",
    ),
    Alert(
        "PolylogSlowSyncs",
        False,
        f"{_p99('polylog_log_sync_seconds')} > 0.5",
        10,
        "One in a hundred syncs of logs takes more than half a second.",
        "The disk is slow or shared with something that writes much. Durable writes wait for it.",
    ),
    Alert(
        "PolylogSlowProduce",
        False,
        f"""{_p99("polylog_request_seconds", '{api="Produce"}')} > 1""",
        10,
        "One in a hundred Produce requests takes more than a second.",
        "Compare the local and the remote time (dashboard of the overview): local is work, remote"
        " is the disk or the replicas.",
    ),
    Alert(
        "PolylogMemoryPoolFull",
        False,
        "polylog_memory_used_bytes / polylog_memory_limit_bytes > 0.9",
        10,
        "A memory pool is nearly in use: new requests wait, or connections are closed.",
        "`pool` says which: input are requests, replies are answers that clients do not read,"
        " groups are their members and offsets. Spread the clients, or give the broker more"
        " memory.",
    ),
    Alert(
        "PolylogFewDescriptors",
        False,
        "polylog_open_fds / polylog_max_fds > 0.8",
        10,
        "More than 80 % of the file descriptors that the process may have are open.",
        "Raise the limit (`LimitNOFILE=`, `ulimit -n`), or set `max.connections`.",
    ),
    Alert(
        "PolylogRestarts",
        True,
        "changes(polylog_start_timestamp_seconds[30m]) > 2",
        0,
        "A broker has been restarted three times in half an hour.",
        "The last lines of its log before each start say why it ended; docs/operations.md lists the"
        " exit codes.",
    ),
    Alert(
        "PolylogLoopBusy",
        False,
        "polylog_loop_busy_ratio > 0.9",
        15,
        "The event loop of a broker is busy nearly all the time.",
        "Look at which requests come (dashboard of the overview). Let clients batch"
        " (`linger.ms`, `fetch.min.bytes`), add workers or brokers.",
    ),
    Alert(
        "PolylogConnectionsRefused",
        False,
        "sum by (instance, reason) (rate(polylog_connections_refused_total[5m])) > 0",
        5,
        "Connections are refused.",
        "`limit`: raise `max.connections`, or find who opens so many; `quota`: clients connect"
        " too often, as after a failed login.",
    ),
    Alert(
        "PolylogVersionsDiffer",
        False,
        "count by (job) (count by (job, version) (polylog_build_info)) > 1",
        120,
        "The brokers of a cluster have had different versions for two hours.",
        "Finish the upgrade, or go back.",
    ),
    Alert(
        "PolylogMetricsLeftOut",
        False,
        "polylog_metrics_left_out > 0",
        60,
        "A page of metrics lacks series: there are more partitions or groups than it has room for,"
        " or the leaders of some are away.",
        "Sums are right. Ask the broker for single ones: `broker topic describe`,"
        " `broker group describe`.",
    ),
)


def rules() -> str:
    """Return the file of rules that Prometheus reads. Strings of JSON are strings of YAML."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "groups:"
    yield "  - name: polylog"
    yield "    rules:"
    for each in ALERTS:
        yield f"      - alert: {each.name}"
        yield f"        expr: {json.dumps(each.expression)}"
        yield f"        for: {each.minutes}m"
        yield "        labels:"
        yield f"          severity: {each.severity}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(each.summary)}"
        yield f"          description: {json.dumps(each.advice)}"
        yield f"          runbook: {_PAGE}#{each.name.lower()}"

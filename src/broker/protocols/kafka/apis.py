"""The table of served Kafka APIs, in the order of their keys.

The response of ApiVersions, the check that every advertised version has a schema, and the names in
logs and metrics come from this table.
"""

from typing import TYPE_CHECKING, Final

from broker.codec import schema
from broker.protocols.kafka.api import Api
from broker.protocols.kafka.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)

if TYPE_CHECKING:
    from broker.codec import bodies


def advertised() -> "list[bodies.ApiVersionsResponseApiKey]":
    """Return the list of APIs for ApiVersions."""
    return [
        {
            "api_key": api.key,
            "min_version": api.versions.start,
            "max_version": api.versions.stop - 1,
        }
        for api in APIS.values()
    ]


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        offset_commit.API,
        offset_fetch.API,
        find_coordinator.API,
        join_group.API,
        heartbeat.API,
        leave_group.API,
        sync_group.API,
        describe_groups.API,
        list_groups.API,
        api_versions.build(advertised),
        create_topics.API,
        delete_topics.API,
        delete_records.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
        add_partitions_to_txn.API,
        add_offsets_to_txn.API,
        end_txn.API,
        write_txn_markers.API,
        txn_offset_commit.API,
        describe_acls.API,
        create_acls.API,
        delete_acls.API,
        describe_configs.API,
        alter_configs.API,
        alter_replica_log_dirs.API,
        describe_log_dirs.API,
        create_partitions.API,
        delete_groups.API,
        elect_leaders.API,
        incremental_alter_configs.API,
        alter_partition_reassignments.API,
        list_partition_reassignments.API,
        offset_delete.API,
        describe_client_quotas.API,
        describe_user_scram_credentials.API,
        describe_quorum.API,
        update_features.API,
        describe_cluster.API,
        describe_producers.API,
        describe_transactions.API,
        list_transactions.API,
        consumer_group_heartbeat.API,
        consumer_group_describe.API,
        list_config_resources.API,
        describe_topic_partitions.API,
    )
}


def check() -> None:
    """Raise ValueError if an API advertises a version that has no schema."""
    for api in APIS.values():
        for message in (schema.request(api.key), schema.response(api.key)):
            for version in (api.versions.start, api.versions.stop - 1):
                if version not in message.versions:
                    raise ValueError(f"{api.name} v{version} is advertised without a schema")


check()

"""Every Kafka API that is served, in the order of the keys.

The answer to ApiVersions, the check that every advertised version has a schema, and the names in
logs and metrics all come from this table.
"""

from typing import Final

from broker.codec import schema
from broker.protocols.kafka.api import Api, Fields
from broker.protocols.kafka.handlers import (
    alter_configs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)


def advertised() -> list[Fields]:
    """What ApiVersions shows."""
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
        api_versions.build(advertised),
        create_topics.API,
        delete_topics.API,
        delete_records.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
        describe_configs.API,
        alter_configs.API,
        describe_log_dirs.API,
        create_partitions.API,
        incremental_alter_configs.API,
        describe_cluster.API,
        consumer_group_heartbeat.API,
        consumer_group_describe.API,
    )
}


def check() -> None:
    """Refuse to start with an API that advertises what the schema tables do not have."""
    for api in APIS.values():
        for message in (schema.request(api.key), schema.response(api.key)):
            for version in (api.versions.start, api.versions.stop - 1):
                if version not in message.versions:
                    raise ValueError(f"{api.name} v{version} is advertised without a schema")


check()

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/IBM/sarama"
)

// older returns a client of the version that a tool speaks.
func (s *saramaLibrary) older(version sarama.KafkaVersion) (sarama.Client, error) {
	config := *s.config
	config.Version = version
	config.Producer.Idempotent = false
	return sarama.NewClient(s.address, &config)
}

// watch asks as kafka_exporter does, which speaks Kafka 2.0 unless it is told otherwise.
func (s *saramaLibrary) watch(_ context.Context, topic, group string) error {
	client, err := s.older(sarama.V2_0_0_0)
	if err != nil {
		return err
	}
	defer client.Close()
	if err = client.RefreshMetadata(); err != nil {
		return err
	}
	topics, err := client.Topics()
	if err != nil {
		return err
	}
	ids, err := client.Partitions(topic)
	if err != nil {
		return err
	}
	fact("listed", slices.Contains(topics, topic))
	fact("brokers", len(client.Brokers()))
	fact("partitions", len(ids))
	ends := map[int32]int64{}
	var sum, oldest int64
	var replicas, inSync, preferred int
	for _, id := range ids {
		leader, err := client.Leader(topic, id)
		if err != nil {
			return err
		}
		if ends[id], err = client.GetOffset(topic, id, sarama.OffsetNewest); err != nil {
			return err
		}
		start, err := client.GetOffset(topic, id, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		of, err := client.Replicas(topic, id)
		if err != nil {
			return err
		}
		in, err := client.InSyncReplicas(topic, id)
		if err != nil {
			return err
		}
		sum, oldest = sum+ends[id], oldest+start
		replicas, inSync = replicas+len(of), inSync+len(in)
		if leader.ID() == of[0] {
			preferred++
		}
	}
	fact("ends", sum)
	fact("starts", oldest)
	fact("replicas", replicas)
	fact("in_sync", inSync)
	fact("preferred", preferred)
	for _, broker := range client.Brokers() {
		if err := s.watchGroups(client, broker, ends, topic, group); err != nil {
			return err
		}
	}
	return nil
}

func (s *saramaLibrary) watchGroups(
	client sarama.Client, broker *sarama.Broker, ends map[int32]int64, topic, group string,
) error {
	if err := broker.Open(client.Config()); err != nil && err != sarama.ErrAlreadyConnected {
		return err
	}
	defer broker.Close()
	groups, err := broker.ListGroups(&sarama.ListGroupsRequest{})
	if err != nil {
		return err
	}
	fact("protocol_type", groups.Groups[group])
	described, err := broker.DescribeGroups(&sarama.DescribeGroupsRequest{Groups: []string{group}})
	if err != nil {
		return err
	}
	fact("state", described.Groups[0].State)
	fact("members", len(described.Groups[0].Members))
	request := sarama.OffsetFetchRequest{ConsumerGroup: group, Version: 4}
	for id := range ends {
		request.AddPartition(topic, id)
	}
	fetched, err := broker.FetchOffset(&request)
	if err != nil {
		return err
	}
	var lag int64
	for id, end := range ends {
		block := fetched.GetBlock(topic, id)
		if block.Err != sarama.ErrNoError {
			return block.Err
		}
		lag += end - block.Offset
	}
	fact("lag", lag)
	return nil
}

// operate does what kafkactl does, with the version that it speaks.
func (s *saramaLibrary) operate(ctx context.Context, topic, group string) error {
	client, err := s.older(sarama.V2_5_0_0)
	if err != nil {
		return err
	}
	defer client.Close()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return err
	}
	text := "600000"
	entries := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &text},
	}
	if err = admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false); err != nil {
		return err
	}
	if err = admin.CreatePartitions(topic, partitions+1, nil, false); err != nil {
		return err
	}
	if err = admin.AlterPartitionReassignments(topic, [][]int32{{1}, {1}, {1}, {1}}); err != nil {
		return err
	}
	fact("unknown_broker", admin.AlterPartitionReassignments(topic, [][]int32{{99}, {1}, {1}, {1}}) != nil)
	if err = s.shown(admin, topic); err != nil {
		return err
	}
	if err = s.resetByMember(ctx, client, topic, group); err != nil {
		return err
	}
	copied := group + "-copy"
	if err = s.copyOffsets(ctx, client, admin, topic, group, copied); err != nil {
		return err
	}
	if err = admin.DeleteConsumerGroupOffset(copied, topic, 0); err != nil {
		return err
	}
	left, err := admin.ListConsumerGroupOffsets(copied, nil)
	if err != nil {
		return err
	}
	fact("left", len(left.Blocks[topic]))
	if err = admin.DeleteConsumerGroup(copied); err != nil {
		return err
	}
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	_, isThere := groups[copied]
	fact("group_deleted", !isThere)
	if err = admin.DeleteRecords(topic, map[int32]int64{0: 2}); err != nil {
		return err
	}
	start, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
	fact("start", start)
	return err
}

func (s *saramaLibrary) shown(admin sarama.ClusterAdmin, topic string) error {
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return err
	}
	fact("partitions", len(described[0].Partitions))
	settings, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	if err != nil {
		return err
	}
	fact("retention", settings[0].Value)
	fact("is_default", settings[0].Default)
	brokers, controller, err := admin.DescribeCluster()
	if err != nil {
		return err
	}
	fact("controller_is_a_broker", controller == brokers[0].ID())
	of, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.BrokerResource, Name: fmt.Sprint(brokers[0].ID())})
	if err != nil {
		return err
	}
	fact("broker_settings", len(of) > 100)
	return nil
}

// resetByMember moves a group back to the start as its only member, as kafkactl does.
func (s *saramaLibrary) resetByMember(ctx context.Context, client sarama.Client, topic, group string) error {
	member, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		return err
	}
	until, done := context.WithCancel(ctx)
	defer done()
	err = member.Consume(until, []string{topic}, &resetting{topic: topic, done: done})
	if err == nil {
		err = member.Close()
	}
	return err
}

// resetting sets the offsets of its claims at the beginning of a session, and ends it.
type resetting struct {
	topic string
	done  func()
}

func (r *resetting) Setup(session sarama.ConsumerGroupSession) error {
	for _, id := range session.Claims()[r.topic] {
		session.ResetOffset(r.topic, id, 0, "reset")
	}
	session.Commit()
	r.done()
	return nil
}

func (*resetting) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (*resetting) ConsumeClaim(session sarama.ConsumerGroupSession, _ sarama.ConsumerGroupClaim) error {
	<-session.Context().Done()
	return nil
}

// copyOffsets commits a group's offsets for another one that has no members.
func (s *saramaLibrary) copyOffsets(
	ctx context.Context, client sarama.Client, admin sarama.ClusterAdmin, topic, group, copied string,
) error {
	offsets, err := admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return err
	}
	manager, err := sarama.NewOffsetManagerFromClient(copied, client)
	if err != nil {
		return err
	}
	defer manager.Close()
	var sum int64
	for id, block := range offsets.Blocks[topic] {
		sum += block.Offset
		of, err := manager.ManagePartition(topic, id)
		if err != nil {
			return err
		}
		of.MarkOffset(block.Offset+1, block.Metadata)
		defer of.AsyncClose()
	}
	manager.Commit()
	fact("reset_to", sum)
	fact("metadata", offsets.Blocks[topic][0].Metadata)
	return until(ctx, func() (bool, error) {
		made, err := admin.ListConsumerGroupOffsets(copied, nil)
		if err != nil || len(made.Blocks[topic]) < len(offsets.Blocks[topic]) {
			return false, err
		}
		fact("copied", len(made.Blocks[topic]))
		return true, nil
	})
}

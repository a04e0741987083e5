package main

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const offsetsTopic = "__consumer_offsets"

// watch asks as kminion does, both by the APIs and by the topic of committed offsets.
func (f *franz) watch(ctx context.Context, topic, group string) error {
	asked := kmsg.NewPtrApiVersionsRequest()
	asked.ClientSoftwareName, asked.ClientSoftwareVersion = "kminion", "v2"
	versions, err := asked.RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	fact("release", kversion.FromApiVersionsResponse(versions).VersionGuess())
	everything := kmsg.NewPtrMetadataRequest()
	everything.Topics = nil
	metadata, err := everything.RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	fact("brokers", len(metadata.Brokers))
	ends, err := f.offsets(ctx, metadata, topic, -1)
	if err != nil {
		return err
	}
	starts, err := f.offsets(ctx, metadata, topic, -2)
	if err != nil {
		return err
	}
	fact("partitions", len(ends))
	fact("ends", total(ends))
	fact("starts", total(starts))
	if err = f.watchGroup(ctx, topic, group, total(ends)); err != nil {
		return err
	}
	var size int64
	described := kmsg.NewPtrDescribeLogDirsRequest()
	for _, shard := range f.client.RequestSharded(ctx, described) {
		if shard.Err != nil {
			return shard.Err
		}
		for _, dir := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			for _, of := range dir.Topics {
				for _, partition := range of.Partitions {
					if of.Topic == topic {
						size += partition.Size
					}
				}
			}
		}
	}
	fact("has_size", size > 0)
	settings, err := f.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	fact("settings", len(settings[0].Configs) > 30)
	read, err := f.committedIn(ctx, topic, group)
	fact("lag_in_topic", total(ends)-read)
	return err
}

func (f *franz) offsets(
	ctx context.Context, metadata *kmsg.MetadataResponse, topic string, at int64,
) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	for _, each := range metadata.Topics {
		of := kmsg.NewListOffsetsRequestTopic()
		of.Topic = *each.Topic
		for _, partition := range each.Partitions {
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Partition, one.Timestamp = partition.Partition, at
			of.Partitions = append(of.Partitions, one)
		}
		request.Topics = append(request.Topics, of)
	}
	answer, err := request.RequestWith(ctx, f.client)
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for _, each := range answer.Topics {
		for _, partition := range each.Partitions {
			if each.Topic != topic { // Other tests' topics may be deleted meanwhile.
				continue
			}
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return nil, err
			}
			found[partition.Partition] = partition.Offset
		}
	}
	return found, nil
}

func (f *franz) watchGroup(ctx context.Context, topic, group string, ends int64) error {
	listed, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	for _, each := range listed.Groups {
		if each.Group == group {
			fact("protocol_type", each.ProtocolType)
		}
	}
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{group}
	described, err := request.RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	fact("state", described.Groups[0].State)
	fact("members", len(described.Groups[0].Members))
	offsets, err := f.admin.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	var sum int64
	for _, each := range offsets[topic] {
		sum += each.At
	}
	fact("lag", ends-sum)
	return nil
}

// committedIn reads the topic of committed offsets to its end, and returns the sum of a group's.
func (f *franz) committedIn(ctx context.Context, topic, group string) (int64, error) {
	ends, err := f.admin.ListEndOffsets(ctx, offsetsTopic)
	if err != nil {
		return 0, err
	}
	missing := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			missing[end.Partition] = end.Offset
		}
	})
	reader, err := kgo.NewClient(append(login(), kgo.SeedBrokers(f.address),
		kgo.ConsumeTopics(offsetsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	of := map[int32]int64{}
	for len(missing) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := errors.Join(fetches.Err()); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset+1 >= missing[record.Partition] {
				delete(missing, record.Partition)
			}
			key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
			if len(record.Key) < 2 || record.Key[1] > 1 || key.ReadFrom(record.Key) != nil {
				return
			}
			if key.Group != group || key.Topic != topic {
				return
			}
			if record.Value == nil {
				delete(of, key.Partition)
			} else if value.ReadFrom(record.Value) == nil {
				of[key.Partition] = value.Offset
			}
		})
	}
	return total(of), nil
}

// operate does what kaf does.
func (f *franz) operate(ctx context.Context, topic, group string) error {
	text := "600000"
	_, err := f.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &text}}, topic)
	if err != nil {
		return err
	}
	// To remove one setting it sets all others to what they are.
	settings, err := f.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	var others []kadm.AlterConfig
	for _, each := range settings[0].Configs {
		if each.Key == "retention.ms" {
			fact("retention", each.MaybeValue())
			continue
		}
		others = append(others, kadm.AlterConfig{Name: each.Key, Value: each.Value})
	}
	altered, err := f.admin.AlterTopicConfigs(ctx, others, topic)
	if err != nil {
		return err
	}
	if err = altered[0].Err; err != nil {
		return errors.Join(err, errors.New(altered[0].ErrMessage))
	}
	made, err := f.admin.CreatePartitions(ctx, 1, topic)
	if err != nil {
		return err
	}
	if err = made.Error(); err != nil {
		return err
	}
	moved := kadm.AlterPartitionAssignmentsReq{}
	moved.Assign(topic, 0, []int32{1})
	if _, err = f.admin.AlterPartitionAssignments(ctx, moved); err != nil {
		return err
	}
	lags, err := f.admin.Lag(ctx, group)
	if err != nil {
		return err
	}
	fact("lag", lags[group].Lag.Total())
	count, err := f.describe(ctx, topic)
	if err != nil {
		return err
	}
	fact("partitions", count)
	return f.moveGroup(ctx, topic, group)
}

func (f *franz) moveGroup(ctx context.Context, topic, group string) error {
	starts, err := f.admin.ListOffsetsAfterMilli(ctx, 0, topic)
	if err != nil {
		return err
	}
	if err = f.admin.CommitAllOffsets(ctx, group, starts.Offsets()); err != nil {
		return err
	}
	lags, err := f.admin.Lag(ctx, group)
	if err != nil {
		return err
	}
	fact("lag_after_reset", lags[group].Lag.Total())
	deleted, err := f.admin.DeleteGroups(ctx, group)
	if err != nil {
		return err
	}
	if err = deleted.Error(); err != nil {
		return err
	}
	groups, err := f.admin.ListGroups(ctx)
	fact("group_deleted", err == nil && !slices.Contains(groups.Groups(), group))
	return err
}

func total(offsets map[int32]int64) int64 {
	var sum int64
	for _, offset := range offsets {
		sum += offset
	}
	return sum
}

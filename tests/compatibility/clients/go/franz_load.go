package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franzLoad struct{ addresses []string }

func (f *franzLoad) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(f.addresses...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryTimeout(time.Minute),
	}, more...)
}

func (f *franzLoad) send(ctx context.Context, process string) error {
	client, err := kgo.NewClient(f.options(kgo.MaxBufferedRecords(inFlightMax))...)
	if err != nil {
		return err
	}
	defer client.Close()
	failed := make(chan error, 1)
	names := newNames(process)
	for ctx.Err() == nil {
		partition, values := names.next()
		for _, value := range values {
			saySend(process, "invoke", sentTopic, partition, value, "", 0)
			record := &kgo.Record{Topic: sentTopic, Partition: partition, Value: []byte(value)}
			client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
				saySend(process, "ok", sentTopic, partition, value, "", record.Offset)
			})
		}
		select {
		case err := <-failed:
			return err
		case <-time.After(pause):
		}
	}
	if err := client.Flush(context.Background()); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (f *franzLoad) member(process, group string) []kgo.Opt {
	return f.options(
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(sentTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			for _, partition := range assigned[sentTopic] {
				sayAssigned(process, partition)
			}
		}),
	)
}

func (f *franzLoad) readGroup(ctx context.Context, process, group string) error {
	client, err := kgo.NewClient(f.member(process, group)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		records, err := franzRead(client.PollFetches(ctx))
		if err != nil || ctx.Err() != nil {
			return err
		}
		if len(records) == 0 {
			continue
		}
		sayRead(process, records, "")
		ends := endsOf(records)
		sayCommit(process, group, "invoke", ends)
		timed, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = client.CommitUncommittedOffsets(timed)
		cancel()
		if err == nil { // otherwise it may or may not be applied
			sayCommit(process, group, "ok", ends)
		}
	}
}

// copyAll begins another session when a broker that has stopped refuses a connection: the client
// returns that for some requests, and it is not known then how the transaction has ended.
func (f *franzLoad) copyAll(ctx context.Context, process, group string) error {
	names, number := newNames(process), 0
	for {
		err := f.copySession(ctx, process, group, names, &number)
		var refused *net.OpError
		if !errors.As(err, &refused) || refused.Op != "dial" {
			return err
		}
	}
}

func (f *franzLoad) copySession(
	ctx context.Context, process, group string, names *names, number *int,
) error {
	session, err := kgo.NewGroupTransactSession(
		append(f.member(process, group), kgo.TransactionalID(process))...)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		*number++
		records, err := franzRead(session.PollFetches(ctx))
		if err != nil || ctx.Err() != nil {
			return err
		}
		if len(records) == 0 {
			continue
		}
		transaction := fmt.Sprintf("%s#%d", process, *number)
		if err := session.Begin(); err != nil {
			return err
		}
		say(process, "begin", "ok", fields{"transaction": transaction, "transactional_id": process})
		sayRead(process, records, transaction)
		ends := endsOf(records)
		var first kgo.FirstErrPromise
		for _, each := range records {
			value, partition := names.copyOf(each), each.partition
			saySend(process, "invoke", copiedTopic, partition, value, transaction, 0)
			record := &kgo.Record{Topic: copiedTopic, Partition: partition, Value: []byte(value)}
			promise := first.Promise()
			session.Produce(context.Background(), record, func(record *kgo.Record, err error) {
				if err == nil {
					saySend(process, "ok", copiedTopic, partition, value, transaction, record.Offset)
				}
				promise(record, err)
			})
		}
		commits := first.Err() == nil && *number%abortedOneIn != 0
		what := fields{"transaction": transaction, "commit": commits}
		sayCommit(process, group, "invoke", ends)
		say(process, "end", "invoke", what)
		committed, err := session.End(context.Background(), kgo.TransactionEndTry(commits))
		switch {
		case err != nil:
			return err
		case committed:
			say(process, "end", "ok", what)
			sayCommit(process, group, "ok", ends)
		default:
			say(process, "end", map[bool]string{true: "fail", false: "ok"}[commits], what)
			for partition := range int32(loadPartitions) { // it reads from the committed offsets again
				sayAssigned(process, partition)
			}
		}
	}
}

// franzRead returns the records of a poll; errors that the client retries are none.
func franzRead(fetches kgo.Fetches) ([]readRecord, error) {
	var failed error
	fetches.EachError(func(_ string, _ int32, err error) {
		var lost *kgo.ErrDataLoss
		if errors.As(err, &lost) {
			failed = err
		}
	})
	var records []readRecord
	fetches.EachRecord(func(record *kgo.Record) {
		records = append(records, readRecord{record.Partition, record.Offset, string(record.Value)})
	})
	return records, failed
}

func openFranzLoad(address string) loader { return &franzLoad{strings.Split(address, ",")} }

package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login returns the options of a login, from the environment: SASL=MECHANISM:USER:PASSWORD.
func login() []kgo.Opt {
	parts := strings.SplitN(os.Getenv("SASL"), ":", 3)
	if len(parts) < 3 {
		return nil
	}
	user, password := parts[1], parts[2]
	mechanisms := map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: user, Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: user, Pass: password}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: user, Pass: password}.AsSha512Mechanism(),
	}
	return []kgo.Opt{kgo.SASL(mechanisms[parts[0]])}
}

type franz struct {
	address string
	client  *kgo.Client
	admin   *kadm.Client
}

func openFranz(address string) (library, error) {
	client, err := kgo.NewClient(append(login(),
		kgo.SeedBrokers(address),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.MetadataMinAge(100*time.Millisecond), // What it remembers of topics is soon too old.
	)...)
	if err != nil {
		return nil, err
	}
	return &franz{address, client, kadm.NewClient(client)}, nil
}

func (f *franz) create(ctx context.Context, topic string) error {
	_, err := f.admin.CreateTopic(ctx, partitions, 1, nil, topic)
	return err
}

func (f *franz) list(ctx context.Context) ([]string, error) {
	topics, err := f.admin.ListTopics(ctx)
	return topics.Names(), err
}

func (f *franz) describe(ctx context.Context, topic string) (int, error) {
	topics, err := f.admin.ListTopics(ctx, topic)
	return len(topics[topic].Partitions), err
}

func (f *franz) remove(ctx context.Context, topic string) error {
	answer, err := f.admin.DeleteTopic(ctx, topic)
	if err != nil {
		return err
	}
	return answer.Err
}

func (f *franz) produce(ctx context.Context, topic string, values []string) error {
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(value)})
	}
	return f.client.ProduceSync(ctx, records...).FirstErr()
}

func (f *franz) read(ctx context.Context, group, topic string, count int) ([]string, error) {
	consumer, err := kgo.NewClient(append(login(),
		kgo.SeedBrokers(f.address),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)...)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var values []string
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, consumer.CommitUncommittedOffsets(ctx)
}

func (f *franz) close() { f.client.Close() }

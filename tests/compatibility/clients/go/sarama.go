package main

import (
	"context"
	"errors"

	"github.com/IBM/sarama"
)

type saramaLibrary struct {
	address []string
	config  *sarama.Config
	admin   sarama.ClusterAdmin
}

func openSarama(address string) (library, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewRoundRobinPartitioner
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	admin, err := sarama.NewClusterAdmin([]string{address}, config)
	return &saramaLibrary{[]string{address}, config, admin}, err
}

func (s *saramaLibrary) create(_ context.Context, topic string) error {
	return s.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false)
}

func (s *saramaLibrary) list(context.Context) ([]string, error) {
	topics, err := s.admin.ListTopics()
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	return names, err
}

func (s *saramaLibrary) describe(_ context.Context, topic string) (int, error) {
	topics, err := s.admin.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	return len(topics[0].Partitions), nil
}

func (s *saramaLibrary) remove(_ context.Context, topic string) error {
	return s.admin.DeleteTopic(topic)
}

func (s *saramaLibrary) produce(_ context.Context, topic string, values []string) error {
	producer, err := sarama.NewSyncProducer(s.address, s.config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, value := range values {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	}
	return producer.SendMessages(messages)
}

func (s *saramaLibrary) read(ctx context.Context, group, topic string, count int) ([]string, error) {
	member, err := sarama.NewConsumerGroup(s.address, group, s.config)
	if err != nil {
		return nil, err
	}
	defer member.Close()
	until, enough := context.WithCancel(ctx)
	defer enough()
	claims := &claims{values: make(chan string), until: until}
	ended := make(chan error, 1)
	go func() { ended <- member.Consume(until, []string{topic}, claims) }()
	var values []string
	for len(values) < count {
		select {
		case value := <-claims.values:
			values = append(values, value)
		case err := <-ended:
			return nil, errors.Join(errors.New("the session ended early"), err)
		}
	}
	enough()
	return values, <-ended
}

func (s *saramaLibrary) close() { s.admin.Close() }

// claims hands on what is read and commits at the end of the session.
type claims struct {
	values chan string
	until  context.Context
}

func (c *claims) Setup(sarama.ConsumerGroupSession) error { return nil }

func (c *claims) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (c *claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message := <-claim.Messages():
			session.MarkMessage(message, "")
			c.values <- string(message.Value)
		case <-c.until.Done():
			return nil
		}
	}
}

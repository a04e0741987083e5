package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaLoad struct{ addresses []string }

func (s *saramaLoad) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.MaxOpenRequests = 1
	config.Metadata.Retry.Max = 300
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Producer.Retry.Max = 300
	config.Producer.Retry.Backoff = 100 * time.Millisecond
	config.Producer.Transaction.Retry.Max = 300
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return config
}

func (s *saramaLoad) send(ctx context.Context, process string) error {
	producer, err := sarama.NewAsyncProducer(s.addresses, s.config())
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	ended := make(chan struct{})
	var unanswered sync.WaitGroup
	go func() {
		defer close(ended)
		for message := range producer.Successes() {
			saySend(process, "ok", sentTopic, message.Partition, message.Metadata.(string), "", message.Offset)
			unanswered.Done()
		}
	}()
	go func() {
		for err := range producer.Errors() {
			select {
			case failed <- err:
			default:
			}
			unanswered.Done()
		}
	}()
	names := newNames(process)
	for ctx.Err() == nil {
		partition, values := names.next()
		for _, value := range values {
			saySend(process, "invoke", sentTopic, partition, value, "", 0)
			unanswered.Add(1)
			producer.Input() <- &sarama.ProducerMessage{
				Topic: sentTopic, Partition: partition, Value: sarama.StringEncoder(value), Metadata: value,
			}
		}
		select {
		case err := <-failed:
			return err
		case <-time.After(pause):
		}
	}
	unanswered.Wait() // a producer that is closed gives up the batches that it is retrying
	producer.AsyncClose()
	<-ended
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (s *saramaLoad) readGroup(ctx context.Context, process, group string) error {
	return s.member(ctx, process, group, func(session sarama.ConsumerGroupSession, records []readRecord) error {
		sayRead(process, records, "")
		ends := endsOf(records)
		for partition, offset := range ends {
			session.MarkOffset(sentTopic, partition, offset, "")
		}
		sayCommit(process, group, "invoke", ends)
		session.Commit() // its error is only logged: "ok" is never said
		return nil
	})
}

// member reads as a member of a group until the context is done, or until handle returns an error.
func (s *saramaLoad) member(
	ctx context.Context, process, group string, handle func(sarama.ConsumerGroupSession, []readRecord) error,
) error {
	member, err := sarama.NewConsumerGroup(s.addresses, group, s.config())
	if err != nil {
		return err
	}
	defer member.Close()
	for ctx.Err() == nil {
		err := member.Consume(ctx, []string{sentTopic}, &loadClaims{process: process, handle: handle})
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "session ended:", err)
			time.Sleep(pause)
		}
	}
	return nil
}

func (s *saramaLoad) copyAll(ctx context.Context, process, group string) error {
	names := newNames(process)
	number := 0
	for ctx.Err() == nil {
		config := s.config()
		config.Producer.Transaction.ID = process
		producer, err := sarama.NewSyncProducer(s.addresses, config)
		if err != nil {
			fmt.Fprintln(os.Stderr, "no transactional producer:", err)
			time.Sleep(pause)
			continue
		}
		until, end := context.WithCancel(ctx)
		err = s.member(until, process, group, func(session sarama.ConsumerGroupSession, records []readRecord) error {
			number++
			transaction := fmt.Sprintf("%s#%d", process, number)
			err := saramaCopy(producer, names, process, group, transaction, number%abortedOneIn != 0, records)
			if err != nil {
				end() // another producer and another session begin at the committed offsets
			}
			return err
		})
		end()
		producer.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func saramaCopy(
	producer sarama.SyncProducer, names *names, process, group, transaction string, commits bool, records []readRecord,
) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	say(process, "begin", "ok", fields{"transaction": transaction, "transactional_id": process})
	sayRead(process, records, transaction)
	ends := endsOf(records)
	what := fields{"transaction": transaction, "commit": commits}
	for _, each := range records {
		value := names.copyOf(each)
		saySend(process, "invoke", copiedTopic, each.partition, value, transaction, 0)
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: copiedTopic, Partition: each.partition, Value: sarama.StringEncoder(value),
		})
		if err != nil {
			return saramaAbort(producer, process, transaction, err)
		}
		saySend(process, "ok", copiedTopic, each.partition, value, transaction, offset)
	}
	if !commits {
		return saramaAbort(producer, process, transaction, fmt.Errorf("aborted on purpose"))
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for partition, offset := range ends {
		offsets[sentTopic] = append(offsets[sentTopic],
			&sarama.PartitionOffsetMetadata{Partition: partition, Offset: offset})
	}
	sayCommit(process, group, "invoke", ends)
	if err := producer.AddOffsetsToTxn(offsets, group); err != nil {
		return saramaAbort(producer, process, transaction, err)
	}
	say(process, "end", "invoke", what)
	if err := producer.CommitTxn(); err != nil {
		say(process, "end", "info", what)
		return err
	}
	say(process, "end", "ok", what)
	sayCommit(process, group, "ok", ends)
	return nil
}

func saramaAbort(producer sarama.SyncProducer, process, transaction string, why error) error {
	what := fields{"transaction": transaction, "commit": false}
	say(process, "end", "invoke", what)
	if err := producer.AbortTxn(); err != nil {
		say(process, "end", "info", what)
		return err
	}
	say(process, "end", "ok", what)
	return why
}

// loadClaims hands the records of all partitions of a session to one function, a batch at a time.
type loadClaims struct {
	process string
	handle  func(sarama.ConsumerGroupSession, []readRecord) error
	turn    chan struct{}
}

func (c *loadClaims) Setup(session sarama.ConsumerGroupSession) error {
	c.turn = make(chan struct{}, 1)
	for _, partition := range session.Claims()[sentTopic] {
		sayAssigned(c.process, partition)
	}
	return nil
}

func (c *loadClaims) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *loadClaims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		var records []readRecord
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			records = append(records, readRecord{message.Partition, message.Offset, string(message.Value)})
		case <-session.Context().Done():
			return nil
		}
		for more := true; more; {
			select {
			case message, isOpen := <-claim.Messages():
				if !isOpen {
					more = false
					break
				}
				records = append(records, readRecord{message.Partition, message.Offset, string(message.Value)})
			default:
				more = false
			}
		}
		select {
		case c.turn <- struct{}{}:
		case <-session.Context().Done():
			return nil
		}
		if session.Context().Err() != nil {
			return nil
		}
		err := c.handle(session, records)
		<-c.turn
		if err != nil {
			return err
		}
	}
}

func openSaramaLoad(address string) loader { return &saramaLoad{strings.Split(address, ",")} }

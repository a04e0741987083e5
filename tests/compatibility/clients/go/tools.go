// What tools in Go do with these libraries: LIBRARY watch|operate ADDRESS TOPIC.
//
// watch asks for what exporters of metrics show: kafka_exporter (sarama), kminion (franz-go). operate
// does what command line tools do: kafkactl (sarama), kaf (franz-go). The tools themselves are asked
// for the same, in the same order and with the same versions of the protocol.
package main

import (
	"context"
	"fmt"
	"time"
)

const (
	committed = 30 // records that the group has read
	behind    = 6  // and that it has not
)

// A tool that only looks, or one that also changes things, made with a library.
type tool interface {
	library
	watch(ctx context.Context, topic, group string) error
	operate(ctx context.Context, topic, group string) error
}

// runTool lets a tool work on a topic with a group that is behind.
func runTool(ctx context.Context, client tool, verb, topic string) {
	group := topic + "-group"
	check(client.produce(ctx, topic, numbers(0, committed)))
	_, err := client.read(ctx, group, topic, committed)
	check(err)
	check(client.produce(ctx, topic, numbers(committed, committed+behind)))
	if verb == "watch" {
		check(client.watch(ctx, topic, group))
	} else {
		check(client.operate(ctx, topic, group))
	}
}

// until waits for something that a broker shows soon.
func until(ctx context.Context, holds func() (bool, error)) error {
	for {
		done, err := holds()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func fact(name string, value any) { fmt.Printf("%s=%v\n", name, value) }

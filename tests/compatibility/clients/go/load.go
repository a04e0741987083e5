package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync"
	"time"
)

// The load of a library on a cluster (tests/cluster/loads): history lines on stdout.
//
//	LIBRARY load ADDRESS NAME
const (
	sentTopic      = "sent"
	copiedTopic    = "copied"
	loadPartitions = 6
	inFlightMax    = 300
	abortedOneIn   = 5
	pause          = 10 * time.Millisecond
)

// A worker's record of one partition, as a library read it.
type readRecord struct {
	partition int32
	offset    int64
	value     string
}

// The workers of a library; each ends when its context is done, or with an error that is not retried.
type loader interface {
	send(ctx context.Context, process string) error
	readGroup(ctx context.Context, process, group string) error
	copyAll(ctx context.Context, process, group string) error
}

func runLoad(workers loader, name string) {
	sending, finish := context.WithCancel(context.Background())
	working, stop := context.WithCancel(context.Background())
	var sender, others sync.WaitGroup
	start := func(group *sync.WaitGroup, work func() error) {
		group.Add(1)
		go func() {
			defer group.Done()
			check(work())
		}()
	}
	start(&sender, func() error { return workers.send(sending, name+"-sender") })
	for _, process := range []string{name + "-reader-1", name + "-reader-2"} {
		start(&others, func() error { return workers.readGroup(working, process, "readers") })
	}
	start(&others, func() error { return workers.copyAll(working, name+"-copier", "copied-copiers") })
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		finish()
		sender.Wait()
		out.line("finished")
	}
	finish()
	stop()
	sender.Wait()
	others.Wait()
}

// names makes the names of the records of a sender: a partition, and some for it.
type names struct {
	process string
	random  *rand.Rand
	number  int
}

func newNames(process string) *names {
	return &names{process, rand.New(rand.NewSource(int64(len(process)))), 0}
}

func (n *names) next() (int32, []string) {
	partition := int32(n.random.Intn(loadPartitions))
	var values []string
	for count := 1 + n.random.Intn(5); count > 0; count-- {
		values = append(values, fmt.Sprintf("%s,%d,%s,%d", sentTopic, partition, n.process, n.number))
		n.number++
	}
	return partition, values
}

// copyOf returns the name of a copy: every attempt is another one.
func (n *names) copyOf(record readRecord) string {
	parts := strings.Split(record.value, ",")
	n.number++
	return fmt.Sprintf("%s,%d,%s:%s,%d", copiedTopic, record.partition, parts[2], parts[3], n.number)
}

// ---- the history

type fields map[string]any

type output struct {
	mutex sync.Mutex
}

var out output

func (o *output) line(text string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	os.Stdout.WriteString(text + "\n")
}

func say(process, f, kind string, value fields) {
	line, err := json.Marshal(map[string]any{"process": process, "f": f, "type": kind, "value": value})
	check(err)
	out.line(string(line))
}

func saySend(process, kind, topic string, partition int32, value, transaction string, offset int64) {
	what := fields{"topic": topic, "partition": partition, "values": []string{value}, "delivery": "idempotent"}
	if transaction != "" {
		what["transaction"] = transaction
	}
	if kind == "ok" {
		what["offset"] = offset
	}
	say(process, "send", kind, what)
}

func sayAssigned(process string, partition int32) {
	say(process, "assign", "ok", fields{"topic": sentTopic, "partition": partition})
}

func sayRead(process string, records []readRecord, transaction string) {
	read := map[int32][][]any{}
	for _, each := range records {
		read[each.partition] = append(read[each.partition], []any{each.offset, each.value})
	}
	for partition, each := range read {
		what := fields{"topic": sentTopic, "partition": partition, "records": each}
		if transaction != "" {
			what["transaction"] = transaction
		}
		say(process, "poll", "ok", what)
	}
}

func sayCommit(process, group, kind string, ends map[int32]int64) {
	for partition, offset := range ends {
		what := fields{"topic": sentTopic, "partition": partition, "group": group, "offset": offset}
		say(process, "commit", kind, what)
	}
}

func endsOf(records []readRecord) map[int32]int64 {
	ends := map[int32]int64{}
	for _, each := range records {
		ends[each.partition] = each.offset + 1
	}
	return ends
}

// Clients written in Go, asked for the same things: LIBRARY admin|group ADDRESS TOPIC, or a load on a
// cluster (load.go), or a client with TLS and a login (secured.go), or a tool's work (tools.go).
//
// What they saw is printed as lines name=value, the same ones for every library.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	partitions = 3
	limit      = 40 * time.Second
)

// A library under test, in words that all of them share.
type library interface {
	create(ctx context.Context, topic string) error
	list(ctx context.Context) ([]string, error)
	describe(ctx context.Context, topic string) (int, error)
	remove(ctx context.Context, topic string) error
	produce(ctx context.Context, topic string, values []string) error
	// read joins a group, reads so many records, commits them and leaves.
	read(ctx context.Context, group, topic string, count int) ([]string, error)
	close()
}

func main() {
	if os.Args[2] == "load" {
		loaders := map[string]func(string) loader{"franz-go": openFranzLoad, "sarama": openSaramaLoad}
		runLoad(loaders[os.Args[1]](os.Args[3]), os.Args[4])
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if os.Args[2] == "secured" {
		runSecured(ctx, os.Args[3], os.Args[4], os.Args[5], os.Args[6:])
		return
	}
	opened := map[string]func(string) (library, error){"franz-go": openFranz, "sarama": openSarama}
	client, err := opened[os.Args[1]](os.Args[3])
	check(err)
	defer client.close()
	topic := os.Args[4]
	check(client.create(ctx, topic))
	switch os.Args[2] {
	case "admin":
		admin(ctx, client, topic)
	case "group":
		group(ctx, client, topic)
	case "watch", "operate":
		runTool(ctx, client.(tool), os.Args[2], topic)
	}
}

func admin(ctx context.Context, client library, topic string) {
	names, err := client.list(ctx)
	check(err)
	fmt.Printf("listed=%t\n", slices.Contains(names, topic))
	count, err := client.describe(ctx, topic)
	check(err)
	fmt.Printf("partitions=%d\n", count)
	check(client.remove(ctx, topic))
	for slices.Contains(names, topic) { // A library may show what it remembers for a while.
		names, err = client.list(ctx)
		check(err)
	}
	fmt.Println("deleted=true")
}

func group(ctx context.Context, client library, topic string) {
	check(client.produce(ctx, topic, numbers(0, 30)))
	read(ctx, client, "read", topic, 30)
	check(client.produce(ctx, topic, numbers(30, 36)))
	read(ctx, client, "resumed", topic, 6)
}

func read(ctx context.Context, client library, name, topic string, count int) {
	values, err := client.read(ctx, topic+"-group", topic, count)
	check(err)
	slices.Sort(values)
	fmt.Printf("%s=%v\n", name, values)
}

func numbers(from, end int) []string {
	var values []string
	for number := from; number < end; number++ {
		values = append(values, fmt.Sprintf("%02d", number))
	}
	return values
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// franz-go over whatever security the environment says: it writes values, and reads them.
//
//	franz-go secured ADDRESS TOPIC FORBIDDEN VALUE...
//
// It prints read=VALUES, and, if FORBIDDEN is not empty, refused=true when a write to that topic was
// refused for lack of permission.
func runSecured(ctx context.Context, address, topic, forbidden string, values []string) {
	options := append(security(), kgo.SeedBrokers(address))
	producer, err := kgo.NewClient(options...)
	check(err)
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(value)})
	}
	check(producer.ProduceSync(ctx, records...).FirstErr())
	if forbidden != "" {
		err := producer.ProduceSync(ctx, &kgo.Record{Topic: forbidden, Value: []byte("x")}).FirstErr()
		fmt.Printf("refused=%t\n", errors.Is(err, kerr.TopicAuthorizationFailed))
	}
	producer.Close()

	consumer, err := kgo.NewClient(append(
		options,
		kgo.ConsumerGroup(topic+"-group"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	check(err)
	var read []string
	for len(read) < len(values) {
		fetches := consumer.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) { read = append(read, string(each.Value)) })
	}
	check(consumer.CommitUncommittedOffsets(ctx))
	consumer.Close()
	fmt.Println("read=" + strings.Join(read, ","))
}

func security() []kgo.Opt {
	var options []kgo.Opt
	if file := os.Getenv("TRUST_STORE"); file != "" {
		pem, err := os.ReadFile(file)
		check(err)
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: trusted}
		if file := os.Getenv("KEY_STORE"); file != "" {
			own, err := tls.LoadX509KeyPair(file, file)
			check(err)
			config.Certificates = []tls.Certificate{own}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	user, password := os.Getenv("SASL_USER"), os.Getenv("SASL_PASSWORD")
	mechanisms := map[string]func() sasl.Mechanism{
		"PLAIN":         plain.Auth{User: user, Pass: password}.AsMechanism,
		"SCRAM-SHA-256": scram.Auth{User: user, Pass: password}.AsSha256Mechanism,
		"SCRAM-SHA-512": scram.Auth{User: user, Pass: password}.AsSha512Mechanism,
		"OAUTHBEARER":   oauth.Auth{Token: os.Getenv("SASL_TOKEN")}.AsMechanism,
	}
	if make, ok := mechanisms[os.Getenv("SASL_MECHANISM")]; ok {
		options = append(options, kgo.SASL(make()))
	}
	return options
}

// franz-go over TLS and SASL: produces and consumes one record. Reads its settings as JSON from stdin.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The exit code of a client that was refused; 1 is any other failure.
const refused = 3

type settings struct {
	Bootstrap, Topic, Mechanism, User, Password, Token, Authority, Certificate string
}

func fail(code int, what string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	os.Exit(code)
}

func options(given settings) []kgo.Opt {
	found := []kgo.Opt{kgo.SeedBrokers(given.Bootstrap), kgo.AllowAutoTopicCreation()}
	if given.Authority != "" {
		pem, err := os.ReadFile(given.Authority)
		if err != nil {
			fail(1, "authority", err)
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: trusted, ServerName: "localhost"}
		if given.Certificate != "" {
			pair, err := tls.LoadX509KeyPair(given.Certificate, given.Certificate)
			if err != nil {
				fail(1, "certificate", err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		found = append(found, kgo.DialTLSConfig(config))
	}
	switch given.Mechanism {
	case "PLAIN":
		found = append(found, kgo.SASL(plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		found = append(found, kgo.SASL(scram.Auth{User: given.User, Pass: given.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		found = append(found, kgo.SASL(scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		found = append(found, kgo.SASL(oauth.Auth{Token: given.Token}.AsMechanism()))
	}
	return found
}

func main() {
	var given settings
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fail(1, "settings", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(append(options(given), kgo.ConsumeTopics(given.Topic), kgo.ConsumerGroup(given.Topic))...)
	if err != nil {
		fail(1, "client", err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		fail(refused, "ping", err)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: given.Topic, Value: []byte("one")}).FirstErr(); err != nil {
		fail(1, "produce", err)
	}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			fail(1, "fetch", ctx.Err())
		}
		found := ""
		fetches.EachRecord(func(record *kgo.Record) { found = string(record.Value) })
		if found == "one" {
			fmt.Println("ok")
			return
		}
	}
}

// franz-go: idempotent producer, every codec, direct consumer, admin. Usage: check BOOTSTRAP TOPIC
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const start = 1_700_000_000_000
const each = 50

func check(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func must(holds bool, what string, got any) {
	if !holds {
		check(fmt.Errorf("got %v", got), what)
	}
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	check(err, "client")
	admin := kadm.NewClient(client)
	forever := "-1"
	_, err = admin.CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": &forever}, topic)
	check(err, "create")

	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for index, codec := range codecs {
		producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5*time.Millisecond))
		check(err, "producer")
		var records []*kgo.Record
		for number := 0; number < each; number++ {
			at := index*each + number
			records = append(records, &kgo.Record{
				Topic: topic, Key: []byte("k"), Value: []byte(strconv.Itoa(at)), Timestamp: time.UnixMilli(start + int64(at)*1000),
				Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}},
			})
		}
		check(producer.ProduceSync(ctx, records...).FirstErr(), "produce")
		producer.Close()
	}

	total := len(codecs) * each
	for _, from := range []int64{0, 7, 130} {
		offsets := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}
		consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(offsets))
		check(err, "consumer")
		next := from
		for next < int64(total) {
			fetches := consumer.PollFetches(ctx)
			check(fetches.Err(), "fetch")
			fetches.EachRecord(func(record *kgo.Record) {
				must(record.Offset == next && string(record.Value) == strconv.FormatInt(next, 10), "record", record.Offset)
				must(len(record.Headers) == 2 && record.Headers[1].Value == nil, "headers", record.Headers)
				next++
			})
		}
		consumer.Close()
	}

	ends, err := admin.ListEndOffsets(ctx, topic)
	check(err, "end offsets")
	end, _ := ends.Lookup(topic, 0)
	must(end.Offset == int64(total), "end offset", end.Offset)
	after, err := admin.ListOffsetsAfterMilli(ctx, start+2500, topic)
	check(err, "offsets by time")
	found, _ := after.Lookup(topic, 0)
	must(found.Offset == 3, "offset by time", found.Offset)
	_, err = admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 5, LeaderEpoch: -1}}})
	check(err, "delete records")
	starts, err := admin.ListStartOffsets(ctx, topic)
	check(err, "start offsets")
	first, _ := starts.Lookup(topic, 0)
	must(first.Offset == 5, "start offset", first.Offset)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err, "configs")
	must(len(configs[0].Configs) >= 25, "configs", len(configs[0].Configs))
	_, err = admin.DescribeAllLogDirs(ctx, nil)
	check(err, "log dirs")
	_, err = admin.DeleteTopics(ctx, topic)
	check(err, "delete")
	client.Close()
	fmt.Println("ok")
}

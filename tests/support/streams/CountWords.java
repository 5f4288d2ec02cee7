import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Count words with exactly-once semantics: CountWords BOOTSTRAP RECORD-COUNT STATE-FOLDER.
 *
 * Every input record is repartitioned by its word, counted in a store with a changelog, and its count is written to the output. There is no
 * cache, so the output of a word must be 1, 2, 3 ... up to its frequency. Prints "committed N" after each
 * tenth of the output that a consumer with read_committed has read, and "exact" at the end.
 */
public final class CountWords {
    private static final int PARTITIONS = 3;
    private static final short REPLICAS = 3;
    private static final int WORDS = 500;
    private static final long QUIET_NANOS = 2_000_000_000L;
    private static final long NANOS_MAX = 600_000_000_000L;

    private final String bootstrap;
    private final int count;

    private CountWords(String bootstrap, int count) {
        this.bootstrap = bootstrap;
        this.count = count;
    }

    public static void main(String[] arguments) throws Exception {
        CountWords application = new CountWords(arguments[0], Integer.parseInt(arguments[1]));
        application.createTopics();
        application.fillInput();
        try (KafkaStreams streams = application.streams(arguments[2])) {
            long started = System.nanoTime();
            streams.start();
            application.awaitOutput();
            System.out.printf("seconds %.1f%n", (System.nanoTime() - started - QUIET_NANOS) / 1e9);
        }
        System.out.println("exact");
    }

    private void createTopics() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("input", PARTITIONS, REPLICAS), new NewTopic("output", PARTITIONS, REPLICAS))).all().get();
        }
    }

    private void fillInput() {
        Map<String, Object> properties = Map.of("bootstrap.servers", bootstrap, "linger.ms", 5);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>("input", number % PARTITIONS, null, "word-" + number % WORDS));
            }
        }
    }

    private KafkaStreams streams(String folder) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("input", Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled())
            .toStream().to("output", Produced.with(Serdes.String(), Serdes.Long()));
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("application.id", "count-words");
        properties.put("state.dir", folder);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("num.stream.threads", "2");
        properties.put("commit.interval.ms", "100");
        properties.put("replication.factor", String.valueOf(REPLICAS));
        return new KafkaStreams(builder.build(), properties);
    }

    /** Read the output until it is complete, and a little longer to see that nothing is written twice. */
    private void awaitOutput() {
        Map<String, Object> properties = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        Map<String, Long> counts = new HashMap<>();
        try (KafkaConsumer<String, Long> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new LongDeserializer())) {
            List<TopicPartition> all = consumer.partitionsFor("output").stream()
                .map(info -> new TopicPartition(info.topic(), info.partition())).collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long seen = 0;
            long begun = System.nanoTime();
            long changed = begun;
            while (seen < count || System.nanoTime() - changed < QUIET_NANOS) {
                if (System.nanoTime() - begun > NANOS_MAX) {
                    throw new AssertionError("only " + seen + " of " + count + " records in the output");
                }
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    long expected = counts.merge(record.key(), 1L, Long::sum);
                    if (record.value() != expected) {
                        throw new AssertionError(record + " where count " + expected + " comes next");
                    }
                    seen++;
                    changed = System.nanoTime();
                    if (seen % (count / 10) == 0) {
                        System.out.println("committed " + seen);
                    }
                }
            }
            if (seen != count) {
                throw new AssertionError(seen + " records in the output, not " + count);
            }
        }
        for (int word = 0; word < WORDS; word++) {
            long expected = count / WORDS + (word < count % WORDS ? 1 : 0);
            if (counts.getOrDefault("word-" + word, 0L) != expected) {
                throw new AssertionError("word-" + word + " counted " + counts.get("word-" + word) + " times, not " + expected);
            }
        }
    }
}

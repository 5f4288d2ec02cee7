import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Checks of the share consumer. Arguments: check, bootstrap, topic. Fails with an exception. */
public final class ShareCheck {
    private static String bootstrap;
    private static String topic;
    private static String group;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[1];
        topic = arguments[2];
        group = "share-" + topic;
        configure("share.auto.offset.reset", "earliest");
        switch (arguments[0]) {
            case "implicit" -> implicit();
            case "explicit" -> explicit();
            case "shared" -> shared();
            case "expiry" -> expiry();
            case "renew" -> renew();
            case "limit" -> limit();
            case "close" -> close();
            case "transactions" -> transactions();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Every record is delivered once, and accepted by the next poll or commit. */
    private static void implicit() throws Exception {
        produce(1000);
        try (KafkaShareConsumer<String, String> consumer = consumer("implicit")) {
            List<String> seen = new ArrayList<>();
            while (seen.size() < 1000) {
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    expect(record.deliveryCount().orElse((short) 0) == 1, "delivery count of " + record);
                    seen.add(record.value());
                }
            }
            expect(new HashSet<>(seen).size() == 1000, "every record once");
            noErrors(consumer.commitSync());
        }
        try (KafkaShareConsumer<String, String> consumer = consumer("implicit")) {
            expect(consumer.poll(Duration.ofSeconds(3)).isEmpty(), "accepted records are not delivered again");
        }
    }

    /** ACCEPT, RELEASE and REJECT; a released record returns with a higher delivery count until the limit. */
    private static void explicit() throws Exception {
        produce(10);
        try (KafkaShareConsumer<String, String> consumer = consumer("explicit")) {
            Map<String, Integer> deliveries = new HashMap<>();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
            while (System.nanoTime() < end && deliveries.getOrDefault("value-3", 0) < 5) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    int count = deliveries.merge(record.value(), 1, Integer::sum);
                    expect(record.deliveryCount().orElse((short) 0) == count, "delivery count " + count + " of " + record);
                    AcknowledgeType type = switch (record.value()) {
                        case "value-3" -> AcknowledgeType.RELEASE;
                        case "value-4" -> AcknowledgeType.REJECT;
                        default -> AcknowledgeType.ACCEPT;
                    };
                    consumer.acknowledge(record, type);
                }
                noErrors(consumer.commitSync());
            }
            expect(deliveries.getOrDefault("value-3", 0) == 5, "delivered up to the limit: " + deliveries);
            expect(deliveries.size() == 10, "all records: " + deliveries);
            deliveries.remove("value-3");
            expect(new HashSet<>(deliveries.values()).equals(Set.of(1)), "others once: " + deliveries);
            expect(consumer.poll(Duration.ofSeconds(2)).isEmpty(), "archived at the limit");
        }
    }

    /** Several consumers share one partition: every record goes to exactly one of them. */
    private static void shared() throws Exception {
        Map<String, String> owners = new ConcurrentHashMap<>();
        Set<String> users = ConcurrentHashMap.newKeySet();
        List<Thread> threads = new ArrayList<>();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        for (int number = 0; number < 3; number++) {
            String name = "consumer-" + number;
            Thread thread = new Thread(() -> {
                try (KafkaShareConsumer<String, String> consumer = consumer("implicit", "max.poll.records", "10")) {
                    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
                    while (owners.size() < 600 && System.nanoTime() < end) {
                        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                            String before = owners.put(record.value(), name);
                            expect(before == null, record.value() + " went to " + before + " and " + name);
                            users.add(name);
                        }
                        Thread.sleep(5);
                    }
                    noErrors(consumer.commitSync());
                } catch (Throwable failure) {
                    failures.add(failure);
                }
            });
            thread.start();
            threads.add(thread);
        }
        // Two heartbeats: a member that joins shortly after another gets its partitions with the next one.
        Thread.sleep(11000);
        for (int batch = 0; batch < 60; batch++) {
            produce(10, batch * 10);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (Throwable failure : failures) {
            throw new AssertionError(failure);
        }
        expect(owners.size() == 600, "all records: " + owners.size());
        expect(users.size() > 1, "more than one consumer works: " + users);
    }

    /** A lock that expires releases the record for another consumer. */
    private static void expiry() throws Exception {
        configure("share.record.lock.duration.ms", "1500");
        produce(5);
        try (KafkaShareConsumer<String, String> stuck = consumer("explicit");
                KafkaShareConsumer<String, String> other = consumer("explicit")) {
            expect(poll(stuck).count() == 5, "all records");
            Map<String, Integer> counts = new HashMap<>();
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (counts.size() < 5 && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : other.poll(Duration.ofMillis(500))) {
                    counts.put(record.value(), (int) record.deliveryCount().orElse((short) 0));
                    other.acknowledge(record);
                }
                noErrors(other.commitSync());
            }
            expect(counts.size() == 5 && new HashSet<>(counts.values()).equals(Set.of(2)), "second delivery: " + counts);
        }
    }

    /** A renewed lock lasts longer than its duration. */
    private static void renew() throws Exception {
        configure("share.record.lock.duration.ms", "2000");
        produce(1);
        try (KafkaShareConsumer<String, String> slow = consumer("explicit");
                KafkaShareConsumer<String, String> other = consumer("explicit")) {
            ConsumerRecord<String, String> record = poll(slow).iterator().next();
            for (int turn = 0; turn < 4; turn++) {
                slow.acknowledge(record, AcknowledgeType.RENEW);
                noErrors(slow.commitSync());
                slow.poll(Duration.ofMillis(100));
                expect(other.poll(Duration.ofMillis(900)).isEmpty(), "a renewed lock does not expire");
            }
            slow.acknowledge(record, AcknowledgeType.ACCEPT);
            noErrors(slow.commitSync());
            expect(other.poll(Duration.ofMillis(3000)).isEmpty(), "accepted after all");
        }
    }

    /** With record_limit no more records are acquired than max.poll.records. */
    private static void limit() throws Exception {
        produce(50);
        try (KafkaShareConsumer<String, String> consumer =
                consumer("implicit", "share.acquire.mode", "record_limit", "max.poll.records", "7")) {
            Set<String> seen = new HashSet<>();
            while (seen.size() < 50) {
                ConsumerRecords<String, String> records = poll(consumer);
                expect(records.count() <= 7, "at most 7: " + records.count());
                for (ConsumerRecord<String, String> record : records) {
                    expect(seen.add(record.value()), "once: " + record);
                }
            }
        }
    }

    /** A consumer that closes without acknowledging releases its records. */
    private static void close() throws Exception {
        produce(5);
        try (KafkaShareConsumer<String, String> first = consumer("explicit")) {
            expect(poll(first).count() == 5, "all records");
        }
        try (KafkaShareConsumer<String, String> second = consumer("implicit")) {
            List<Integer> counts = new ArrayList<>();
            while (counts.size() < 5) {
                for (ConsumerRecord<String, String> record : poll(second)) {
                    counts.add((int) record.deliveryCount().orElse((short) 0));
                }
            }
            expect(new HashSet<>(counts).equals(Set.of(2)), "second delivery: " + counts);
        }
    }

    /** With read_committed, aborted records are not delivered and do not block. */
    private static void transactions() throws Exception {
        configure("share.isolation.level", "read_committed");
        Properties properties = producerProperties();
        properties.put("transactional.id", "tx-" + topic);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            for (int turn = 0; turn < 4; turn++) {
                producer.beginTransaction();
                for (int number = 0; number < 5; number++) {
                    producer.send(new ProducerRecord<>(topic, (turn % 2 == 0 ? "aborted-" : "committed-") + turn + number));
                }
                producer.flush();
                if (turn % 2 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        try (KafkaShareConsumer<String, String> consumer = consumer("implicit")) {
            List<String> seen = new ArrayList<>();
            while (seen.size() < 10) {
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    expect(record.value().startsWith("committed"), record.value());
                    seen.add(record.value());
                }
            }
            noErrors(consumer.commitSync());
            expect(consumer.poll(Duration.ofSeconds(1)).isEmpty(), "nothing else");
        }
    }

    private static ConsumerRecords<String, String> poll(KafkaShareConsumer<String, String> consumer) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (System.nanoTime() < end) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                return records;
            }
        }
        throw new AssertionError("no records within 30 s");
    }

    private static void noErrors(Map<TopicIdPartition, java.util.Optional<org.apache.kafka.common.KafkaException>> results) {
        results.forEach((partition, error) -> expect(error.isEmpty(), partition + ": " + error));
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void configure(String name, String value) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(properties)) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        }
    }

    private static KafkaShareConsumer<String, String> consumer(String mode, String... options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("share.acknowledgement.mode", mode);
        for (int index = 0; index < options.length; index += 2) {
            properties.put(options[index], options[index + 1]);
        }
        KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(Arrays.asList(topic));
        return consumer;
    }

    private static Properties producerProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        return properties;
    }

    private static void produce(int count) {
        produce(count, 0);
    }

    private static void produce(int count, int first) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties())) {
            for (int number = first; number < first + count; number++) {
                producer.send(new ProducerRecord<>(topic, "value-" + number));
            }
        }
    }
}

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Checks of the Java client's transactions: TransactionCheck CHECK BOOTSTRAP TOPIC TRANSACTIONAL-ID [ARGUMENT...]. Topics have two partitions. */
public final class TransactionCheck {
    private final String bootstrap;
    private final String topic;
    private final String id;
    private final String[] more;

    private TransactionCheck(String[] arguments) {
        bootstrap = arguments[1];
        topic = arguments[2];
        id = arguments[3];
        more = Arrays.copyOfRange(arguments, 4, arguments.length);
    }

    public static void main(String[] arguments) throws Exception {
        TransactionCheck check = new TransactionCheck(arguments);
        switch (arguments[0]) {
            case "outcomes": check.outcomes(); break;
            case "many": check.many(); break;
            case "fencing": check.fencing(); break;
            case "transform": check.transform(); break;
            case "leave": check.leave(); break;
            case "late": check.late(); break;
            default: throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println("ok");
    }

    /** Checks that consumers see committed transactions over two partitions completely, and no aborted ones. */
    private void outcomes() throws Exception {
        List<String> committed = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer("60000"); Admin admin = admin()) {
            producer.initTransactions();
            for (int number = 0; number < 12; number++) {
                producer.beginTransaction();
                for (int part = 0; part < 4; part++) {
                    producer.send(new ProducerRecord<>(topic, part % 2, null, number + "/" + part));
                }
                if (number % 3 == 2) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    for (int part = 0; part < 4; part++) {
                        committed.add(number + "/" + part);
                    }
                }
            }
            // Empty transactions: there is nothing to end.
            producer.beginTransaction();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
            same(committed.stream().sorted().collect(Collectors.toList()), read("read_committed", committed.size()));
            same(48, read("read_uncommitted", 48).size());
            TransactionDescription description = admin.describeTransactions(List.of(id)).description(id).get();
            check(description.producerEpoch() >= 12, "each transaction has its own epoch, at " + description.producerEpoch());
        }
    }

    private void many() {
        int count = Integer.parseInt(more[0]);
        try (KafkaProducer<String, String> producer = producer("60000")) {
            producer.initTransactions();
            for (int number = 0; number < count; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, number % 2, null, "v" + number));
                producer.commitTransaction();
            }
        }
        same(count, read("read_committed", count).size());
    }

    /** Checks that a newer producer aborts the transaction of the older one and fences it. */
    private void fencing() {
        try (KafkaProducer<String, String> older = producer("60000"); KafkaProducer<String, String> newer = producer("60000")) {
            older.initTransactions();
            older.beginTransaction();
            older.send(new ProducerRecord<>(topic, 0, null, "older"));
            older.flush();
            newer.initTransactions();
            newer.beginTransaction();
            newer.send(new ProducerRecord<>(topic, 0, null, "newer"));
            newer.commitTransaction();
            try {
                older.send(new ProducerRecord<>(topic, 1, null, "too late"));
                older.commitTransaction();
                throw new AssertionError("committed");
            } catch (KafkaException expected) {
                check(rootOf(expected) instanceof InvalidProducerEpochException, "refused: " + expected);
            }
            try {
                older.abortTransaction();
                throw new AssertionError("aborted");
            } catch (ProducerFencedException expected) {
                check(true, "fenced");
            }
            older.close(Duration.ZERO);
        }
        same(List.of("newer"), read("read_committed", 1));
    }

    /** Copies records to another topic together with the group's offsets: nothing is duplicated or lost. */
    private void transform() {
        String target = more[0];
        String protocol = more[1];
        try (KafkaProducer<String, String> source = plainProducer()) {
            for (int number = 0; number < 60; number++) {
                source.send(new ProducerRecord<>(topic, number % 2, null, "in-" + number));
            }
        }
        Properties properties = consumerProperties("read_committed");
        properties.put("group.id", "group-of-" + id);
        properties.put("group.protocol", protocol);
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "7");
        int seen = 0;
        int turn = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
             KafkaProducer<String, String> producer = producer("60000")) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (seen < 60 && System.nanoTime() < deadline) {
                var records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, 0, null, record.value().replace("in", "out")));
                    offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (turn++ % 3 == 1) {
                    producer.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach((where, offset) ->
                        consumer.seek(where, offset == null ? 0 : offset.offset()));
                } else {
                    producer.commitTransaction();
                    seen += records.count();
                }
            }
        }
        same(60, seen);
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < 60; number++) {
            expected.add("out-" + number);
        }
        same(expected.stream().sorted().collect(Collectors.toList()), read(target, "read_committed", 60));
    }

    /** Leaves a transaction open, as a killed producer does. */
    private void leave() {
        KafkaProducer<String, String> producer = producer(more[0]);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "left"));
        producer.flush();
        producer.close(Duration.ZERO);
    }

    /** Checks that the coordinator aborts a transaction after its timeout, and that the producer continues after an abort. */
    private void late() throws Exception {
        try (KafkaProducer<String, String> producer = producer("1000")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "late"));
            producer.flush();
            Thread.sleep(2500);
            try {
                producer.commitTransaction();
                throw new AssertionError("committed");
            } catch (KafkaException expected) {
                check(true, "refused");
            }
            producer.close(Duration.ZERO);
        }
        try (KafkaProducer<String, String> producer = producer("60000")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "in time"));
            producer.commitTransaction();
        }
        same(List.of("in time"), read("read_committed", 1));
    }

    private List<String> read(String isolation, int count) {
        return read(topic, isolation, count);
    }

    /** Returns all values that a consumer sees, sorted; waits briefly for unexpected ones. */
    private List<String> read(String from, String isolation, int count) {
        List<String> got = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(consumerProperties(isolation), new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = consumer.partitionsFor(from).stream()
                .map(info -> new TopicPartition(info.topic(), info.partition())).collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long deadline = System.nanoTime() + 20_000_000_000L;
            while (System.nanoTime() < deadline && !all.stream().allMatch(where -> consumer.position(where) >= ends.get(where))) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> got.add(record.value()));
            }
        }
        same(count, got.size());
        return got.stream().sorted().collect(Collectors.toList());
    }

    private KafkaProducer<String, String> producer(String timeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private KafkaProducer<String, String> plainProducer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private Properties consumerProperties(String isolation) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        properties.put("auto.offset.reset", "earliest");
        return properties;
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    private static Throwable rootOf(Throwable error) {
        return error.getCause() == null ? error : rootOf(error.getCause());
    }

    private static void same(Object expected, Object got) {
        check(Objects.equals(expected, got), "expected " + expected + ", got " + got);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}

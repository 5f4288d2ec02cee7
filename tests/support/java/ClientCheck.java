import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Checks with the Java client, one per name: ClientCheck CHECK BOOTSTRAP TOPIC [ARGUMENT...]. Throws if a check fails. */
public final class ClientCheck {
    private static final long START = 1_700_000_000_000L;
    private final String bootstrap;
    private final TopicPartition where;
    private final String[] more;

    private ClientCheck(String[] arguments) {
        bootstrap = arguments[1];
        where = new TopicPartition(arguments[2], 0);
        more = Arrays.copyOfRange(arguments, 3, arguments.length);
    }

    public static void main(String[] arguments) throws Exception {
        ClientCheck check = new ClientCheck(arguments);
        switch (arguments[0]) {
            case "roundtrip": check.roundtrip(); break;
            case "times": check.times(); break;
            case "longpoll": check.longPoll(); break;
            case "topics": check.topics(); break;
            case "configs": check.configs(); break;
            case "cluster": check.cluster(); break;
            default: throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println("ok");
    }

    /** Writes records with headers, one codec and one acks setting, and reads them from several offsets. */
    private void roundtrip() throws Exception {
        send(100, more[0], more[1]);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            for (int from = 0; from < 100; from += 47) {
                List<ConsumerRecord<byte[], byte[]>> got = read(consumer, from, 100 - from);
                for (int index = 0; index < got.size(); index++) {
                    ConsumerRecord<byte[], byte[]> one = got.get(index);
                    same(from + index, one.offset());
                    same("value-" + one.offset(), text(one.value()));
                    same(START + one.offset() * 1000, one.timestamp());
                    Header[] headers = one.headers().toArray();
                    same(3, headers.length);
                    same("a=1", headers[0].key() + "=" + text(headers[0].value()));
                    same("a=null", headers[1].key() + "=" + headers[1].value());
                    same("b=", headers[2].key() + "=" + text(headers[2].value()));
                }
            }
        }
    }

    private void times() throws Exception {
        send(20, "lz4", "all");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(); Admin admin = admin()) {
            same(Map.of(where, 0L), consumer.beginningOffsets(List.of(where)));
            same(Map.of(where, 20L), consumer.endOffsets(List.of(where)));
            same(5L, consumer.offsetsForTimes(Map.of(where, START + 4500)).get(where).offset());
            same(null, consumer.offsetsForTimes(Map.of(where, START + 99_000)).get(where));
            same(0L, offset(admin, OffsetSpec.earliest()).offset());
            same(20L, offset(admin, OffsetSpec.latest()).offset());
            same(19L, offset(admin, OffsetSpec.maxTimestamp()).offset());
            same(0L, offset(admin, OffsetSpec.earliestLocal()).offset());
            same(-1L, offset(admin, OffsetSpec.latestTiered()).offset());
            same(7L, offset(admin, OffsetSpec.forTimestamp(START + 7000)).offset());
            admin.deleteRecords(Map.of(where, org.apache.kafka.clients.admin.RecordsToDelete.beforeOffset(12))).all().get();
            same(12L, offset(admin, OffsetSpec.earliest()).offset());
            same(12L, read(consumer, 12, 8).get(0).offset());
        }
    }

    /** Checks that a new record wakes a consumer that waits at the end, long before its timeout. */
    private void longPoll() throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(where));
            consumer.seekToBeginning(List.of(where));
            same(0, consumer.poll(Duration.ofMillis(300)).count());
            send(1, "none", "1");
            long started = System.nanoTime();
            same(1, read(consumer, 0, 1).size());
            check(System.nanoTime() - started < 150_000_000L, "woken late");
        }
    }

    private void topics() throws Exception {
        String topic = where.topic();
        try (Admin admin = admin()) {
            TopicDescription byName = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            same(1, byName.partitions().size());
            check(byName.partitions().get(0).leader() != null, "there is a leader");
            check(byName.partitions().get(0).elr().isEmpty(), "no eligible leader outside the in-sync set");
            TopicCollection ids = TopicCollection.ofTopicIds(List.of(byName.topicId()));
            same(topic, admin.describeTopics(ids).allTopicIds().get().get(byName.topicId()).name());
            check(admin.listTopics().names().get().contains(topic), "listed");
            check(admin.listPartitionReassignments().reassignments().get().isEmpty(), "nothing is being moved");
            admin.createPartitions(Map.of(topic, org.apache.kafka.clients.admin.NewPartitions.increaseTo(2))).all().get();
            refused("InvalidPartitionsException",
                admin.createPartitions(Map.of(topic, org.apache.kafka.clients.admin.NewPartitions.increaseTo(2))).all());
            refused("TopicExistsException",
                admin.createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(topic, 1, (short) 1))).all());
            admin.deleteTopics(ids).all().get();
            refused("UnknownTopicIdException", admin.deleteTopics(ids).all());
        }
    }

    private void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, where.topic());
        DescribeConfigsOptions everything = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        try (Admin admin = admin()) {
            Config config = admin.describeConfigs(List.of(topic), everything).all().get().get(topic);
            check(config.entries().size() >= 25, "every option is there");
            for (ConfigEntry entry : config.entries()) {
                check(entry.type() != ConfigEntry.ConfigType.UNKNOWN, entry.name() + " has a type");
                check(entry.documentation() != null && !entry.documentation().isEmpty(), entry.name() + " has a doc");
            }
            same("producer", config.get("compression.type").value());
            same("compression.type", config.get("compression.type").synonyms().get(0).name());
            ConfigEntry entry = new ConfigEntry("retention.ms", "54321");
            admin.incrementalAlterConfigs(Map.of(topic, List.of(new org.apache.kafka.clients.admin.AlterConfigOp(
                entry, org.apache.kafka.clients.admin.AlterConfigOp.OpType.SET)))).all().get();
            check(admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new org.apache.kafka.clients.admin.ListConfigResourcesOptions())
                .all().get().contains(topic), "the topic is a config resource");
        }
    }

    private void cluster() throws Exception {
        send(10, "none", "all");
        try (Admin admin = admin()) {
            int node = admin.describeCluster().controller().get().id();
            same(1, admin.describeCluster().nodes().get().size());
            check(admin.describeCluster().clusterId().get().length() > 0, "the cluster has an id");
            check(admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"), "features");
            long size = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values().stream()
                .map(folder -> folder.replicaInfos().get(where)).filter(info -> info != null).mapToLong(info -> info.size()).sum();
            check(size > 300, "the log has a size");
        }
    }

    private void send(int count, String codec, String acks) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", codec);
        properties.put("acks", acks);
        properties.put("linger.ms", "10");
        properties.put("enable.idempotence", String.valueOf(acks.equals("all")));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < count; number++) {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    where.topic(), 0, START + number * 1000L, bytes("key-" + number), bytes("value-" + number));
                record.headers().add("a", bytes("1")).add("a", null).add("b", new byte[0]);
                sent.add(producer.send(record));
            }
        }
        for (int number = 0; number < count && !acks.equals("0"); number++) {
            same((long) number, sent.get(number).get().offset());
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, long from, int count) {
        consumer.assign(List.of(where));
        consumer.seek(where, from);
        List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
        long deadline = System.nanoTime() + 10_000_000_000L;
        while (got.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(500)).records(where).forEach(got::add);
        }
        same(count, got.size());
        return got;
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("fetch.max.wait.ms", "200");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    private ListOffsetsResultInfo offset(Admin admin, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get();
    }

    private static void refused(String error, Future<?> answer) throws InterruptedException {
        try {
            answer.get();
        } catch (ExecutionException wrapped) {
            same(error, wrapped.getCause().getClass().getSimpleName());
            return;
        }
        throw new AssertionError("accepted, where " + error + " was due");
    }

    private static void same(Object expected, Object got) {
        check(java.util.Objects.equals(expected, got)
            || expected instanceof Number && got instanceof Number && ((Number) expected).longValue() == ((Number) got).longValue(),
            "expected " + expected + ", got " + got);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}

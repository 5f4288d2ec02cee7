import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of the Java client that join and leave at random until all records have been seen and committed:
 * GroupChurn BOOTSTRAP TOPIC GROUP PROTOCOL SEED SECONDS RECORDS. Prints its observations; throws if a guarantee is violated.
 */
public final class GroupChurn {
    private static final int MEMBERS_MIN = 2;
    private static final int MEMBERS_MAX = 8;
    private static final long DRAIN_MS_MAX = 30_000;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final String protocol;
    private final Set<Integer> seen = ConcurrentHashMap.newKeySet();
    private final List<String> faults = java.util.Collections.synchronizedList(new ArrayList<>());
    /** The owner of a partition in a generation, or in an epoch of the consumer protocol. */
    private final Map<String, String> owners = new ConcurrentHashMap<>();

    private GroupChurn(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        group = arguments[2];
        protocol = arguments[3];
    }

    public static void main(String[] arguments) throws Exception {
        new GroupChurn(arguments).run(
            new Random(Long.parseLong(arguments[4])), Long.parseLong(arguments[5]), Integer.parseInt(arguments[6]));
    }

    private void run(Random chance, long seconds, int records) throws Exception {
        List<Member> present = new ArrayList<>();
        List<Member> all = new ArrayList<>();
        long end = System.currentTimeMillis() + seconds * 1000;
        while (System.currentTimeMillis() < end) {
            boolean joins = present.size() < MEMBERS_MIN || chance.nextDouble() < 0.55 && present.size() < MEMBERS_MAX;
            if (joins) {
                Member member = new Member("member-" + all.size());
                member.start();
                present.add(member);
                all.add(member);
            } else if (present.size() > MEMBERS_MIN) {
                present.remove(chance.nextInt(present.size())).leaving = true;
            }
            Thread.sleep(200 + chance.nextInt(700));
        }
        end = System.currentTimeMillis() + DRAIN_MS_MAX;
        while (System.currentTimeMillis() < end && (seen.size() < records || present.stream().anyMatch(one -> one.behind))) {
            Thread.sleep(100);
        }
        for (Member member : all) {
            member.leaving = true;
        }
        for (Member member : all) {
            member.join(20_000);
        }
        System.out.println("seen " + seen.size() + " members " + all.size() + " ownerships " + owners.size());
        if (seen.size() != records || !faults.isEmpty()) {
            throw new AssertionError(seen.size() + " of " + records + " seen; " + faults);
        }
    }

    private final class Member extends Thread implements ConsumerRebalanceListener {
        volatile boolean leaving;
        volatile boolean behind;
        private final Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();

        Member(String name) {
            super(name);
            setDaemon(true);
        }

        @Override
        public void run() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", group);
            properties.put("client.id", getName());
            properties.put("group.protocol", protocol);
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            properties.put("fetch.max.wait.ms", "100");
            properties.put("max.poll.records", "50");
            if (protocol.equals("classic")) {
                properties.put("session.timeout.ms", "6000");
                properties.put("heartbeat.interval.ms", "200");
                properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
            }
            try (KafkaConsumer<byte[], byte[]> consumer =
                     new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic), this);
                while (!leaving) {
                    read(consumer);
                }
            } catch (Exception error) {
                faults.add(getName() + ": " + error);
            }
            behind = false;
        }

        private void read(KafkaConsumer<byte[], byte[]> consumer) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            int generation = consumer.groupMetadata().generationId();
            for (TopicPartition place : consumer.assignment()) {
                String other = owners.putIfAbsent(generation + "/" + place, getName());
                if (other != null && !other.equals(getName())) {
                    faults.add(place + " belongs to " + other + " and " + getName() + " in generation " + generation);
                }
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                seen.add(Integer.parseInt(new String(record.value(), StandardCharsets.UTF_8)));
                reached.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            behind = !reached.isEmpty();
            if (behind) {
                commit(consumer);
            }
        }

        private void commit(KafkaConsumer<byte[], byte[]> consumer) {
            try {
                consumer.commitSync(Map.copyOf(reached), Duration.ofSeconds(5));
                reached.clear();
            } catch (CommitFailedException gone) {
                reached.keySet().retainAll(consumer.assignment());
            } catch (RebalanceInProgressException | TimeoutException later) {
                // Committed again with the next records, or the partitions move to a member that reads them again.
            } catch (RetriableException later) {
                // The same.
            }
            behind = !reached.isEmpty();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            reached.keySet().removeAll(places);
        }
    }
}

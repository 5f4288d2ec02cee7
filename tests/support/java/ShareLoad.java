import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Load for the benchmarks of share groups. Prints one JSON object.
 *
 * latency BOOTSTRAP TOPIC GROUP COUNT SIZE RATE: one producer and one share consumer; the time from send() to poll().
 * queue BOOTSTRAP TOPIC GROUP SECONDS CONSUMERS WORK_MS: consumers that poll one record at a time and work on it.
 */
public final class ShareLoad {
    private static final double WARM_UP = 0.4;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[1], topic = arguments[2], group = arguments[3];
        double amount = Double.parseDouble(arguments[4]), last = Double.parseDouble(arguments[6]);
        int middle = Integer.parseInt(arguments[5]);
        switch (arguments[0]) {
            case "latency" -> latency(bootstrap, topic, group, (int) amount, middle, (int) last);
            case "queue" -> queue(bootstrap, topic, group, amount, middle, last);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void latency(String bootstrap, String topic, String group, int count, int size, int rate) throws Exception {
        long[] taken = new long[count];
        try (KafkaShareConsumer<byte[], byte[]> consumer = consumer(bootstrap, topic, group, false);
                KafkaProducer<byte[], byte[]> producer = producer(bootstrap)) {
            // The first record shows that the member has its partition.
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[size])).get();
            while (consumer.poll(Duration.ofMillis(500)).isEmpty()) {
            }
            Thread sender = new Thread(() -> send(producer, topic, count, size, rate));
            sender.start();
            int got = 0;
            long deadline = System.nanoTime() + (long) ((double) count / rate * 1e9) + 30_000_000_000L;
            while (got < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    taken[got++] = System.nanoTime() - ByteBuffer.wrap(record.value()).getLong();
                }
            }
            sender.join();
            if (got < count) {
                throw new IllegalStateException(got + " of " + count + " records were received");
            }
        }
        long[] warm = Arrays.copyOfRange(taken, (int) (count * WARM_UP), count);
        Arrays.sort(warm);
        System.out.printf(Locale.ROOT, "{\"records\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}%n",
                warm.length, at(warm, 0.5), at(warm, 0.99), at(warm, 0.999), warm[warm.length - 1] / 1e3);
    }

    private static double at(long[] sorted, double part) {
        return sorted[(int) (sorted.length * part)] / 1e3;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, int count, int size, int rate) {
        long started = System.nanoTime();
        for (int number = 0; number < count; number++) {
            long due = started + number * 1_000_000_000L / rate;
            for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
            byte[] value = new byte[size];
            ByteBuffer.wrap(value).putLong(System.nanoTime());
            producer.send(new ProducerRecord<>(topic, 0, null, value));
        }
        producer.flush();
    }

    private static void queue(String bootstrap, String topic, String group, double duration, int consumers, double workMs) throws Exception {
        AtomicLong got = new AtomicLong();
        for (int number = 0; number < consumers; number++) {
            Thread thread = new Thread(() -> work(bootstrap, topic, group, workMs, got));
            thread.setDaemon(true);
            thread.start();
        }
        while (got.get() == 0) {
            Thread.sleep(1);
        }
        Thread.sleep((long) (duration * WARM_UP * 1000));
        long started = System.nanoTime(), before = got.get(), cpuBefore = cpu();
        Thread.sleep((long) (duration * (1 - WARM_UP) * 1000));
        double seconds = (System.nanoTime() - started) / 1e9;
        System.out.printf(Locale.ROOT, "{\"records\": %d, \"seconds\": %.4f, \"client_cpu_s\": %.4f}%n",
                got.get() - before, seconds, (cpu() - cpuBefore) / 1e9);
        System.out.flush();
    }

    private static void work(String bootstrap, String topic, String group, double workMs, AtomicLong got) {
        KafkaShareConsumer<byte[], byte[]> consumer = consumer(bootstrap, topic, group, true);
        while (true) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                LockSupport.parkNanos((long) (workMs * 1e6));
                got.incrementAndGet();
            }
        }
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static KafkaShareConsumer<byte[], byte[]> consumer(String bootstrap, String topic, String group, boolean one) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        if (one) {
            settings.put("max.poll.records", "1");
            settings.put("share.acquire.mode", "record_limit");
        }
        KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("linger.ms", "0");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }
}

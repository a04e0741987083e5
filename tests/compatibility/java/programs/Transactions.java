import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions of producers and what readers see of them, as lines name=value.
 *
 * <p>Transactions.java ADDRESS TOPIC ends|offsets|fences|expires [NAME=VALUE of a consumer]...
 */
public final class Transactions {
    static final int PARTITIONS = 3;
    static final Duration POLL = Duration.ofMillis(100);
    static final long LIMIT_MS = 30_000;

    static String address;
    static String topic;
    static List<String> options;

    public static void main(String[] args) throws Exception {
        address = args[0];
        topic = args[1];
        options = List.of(args).subList(3, args.length);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            create(admin, topic);
            switch (args[2]) {
                case "ends" -> ends(admin);
                case "offsets" -> offsets(admin);
                case "fences" -> fences(admin);
                case "expires" -> expires(admin);
                default -> throw new IllegalArgumentException(args[2]);
            }
        }
    }

    /** Committed, aborted and open transactions of two producers in the same partitions. */
    static void ends(Admin admin) throws Exception {
        try (var one = producer("one"); var other = producer("other")) {
            one.initTransactions();
            other.initTransactions();
            one.beginTransaction();
            other.beginTransaction();
            send(one, 0, 9);
            send(other, 10, 19);
            one.commitTransaction();
            other.abortTransaction();
            other.beginTransaction();
            send(other, 20, 29);
            other.commitTransaction();
            one.beginTransaction();
            send(one, 30, 39);
            say("committed", numbers(read(admin, "read_committed")));
            say("everything", numbers(read(admin, "read_uncommitted")));
            one.abortTransaction();
            say("in the end", numbers(read(admin, "read_committed")));
            say("stable", ends(admin, IsolationLevel.READ_COMMITTED)
                    .equals(ends(admin, IsolationLevel.READ_UNCOMMITTED)));
        }
    }

    /** Read, write and commit the offsets of what was read, all in one transaction, or none. */
    static void offsets(Admin admin) throws Exception {
        String to = topic + "-out";
        String group = topic + "-group";
        create(admin, to);
        try (var writer = producer("writer")) {
            writer.initTransactions();
            writer.beginTransaction();
            send(writer, 0, 19);
            writer.commitTransaction();
        }
        try (var reader = reader("read_committed", group); var copier = producer("copier")) {
            copier.initTransactions();
            reader.subscribe(List.of(topic));
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            for (long end = deadline(); records.size() < 20; checkTime(end, records)) {
                reader.poll(POLL).forEach(records::add);
            }
            for (boolean commits : new boolean[] {true, false}) {
                copier.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new TreeMap<>(
                        (a, b) -> Integer.compare(a.partition(), b.partition()));
                for (ConsumerRecord<String, String> record : records) {
                    boolean isFirst = Integer.parseInt(record.value()) < 10;
                    if (isFirst == commits) {
                        copier.send(new ProducerRecord<>(to, record.partition(), null, record.value()));
                        next.put(new TopicPartition(topic, record.partition()),
                                new OffsetAndMetadata(record.offset() + 1));
                    }
                }
                copier.sendOffsetsToTransaction(next, reader.groupMetadata());
                if (commits) {
                    say("before", committed(admin, group));
                    copier.commitTransaction();
                    say("after", committed(admin, group));
                } else {
                    copier.abortTransaction();
                    say("aborted", committed(admin, group));
                }
            }
        }
        say("copied", numbers(readTopic(admin, to, "read_committed")));
    }

    /** A second producer under the same transactional id takes the first one's place. */
    static void fences(Admin admin) throws Exception {
        try (var first = producer("same"); var second = producer("same")) {
            first.initTransactions();
            first.beginTransaction();
            send(first, 0, 9);
            second.initTransactions();
            say("old", whatHappens(() -> {
                first.send(new ProducerRecord<>(topic, 0, null, "99"));
                first.commitTransaction();
            }));
            second.beginTransaction();
            send(second, 10, 19);
            second.commitTransaction();
        }
        say("committed", numbers(read(admin, "read_committed")));
    }

    /** The coordinator aborts what is not ended in time; readers go on, the producer cannot. */
    static void expires(Admin admin) throws Exception {
        try (var late = producer("late", "transaction.timeout.ms=1000"); var next = producer("late")) {
            late.initTransactions();
            late.beginTransaction();
            send(late, 0, 9);
            for (long end = deadline();
                    !ends(admin, IsolationLevel.READ_COMMITTED)
                            .equals(ends(admin, IsolationLevel.READ_UNCOMMITTED));
                    checkTime(end, "the transaction is still open")) {
                Thread.sleep(50);
            }
            say("readers", numbers(read(admin, "read_committed")));
            say("late", whatHappens(late::commitTransaction));
            next.initTransactions();
            next.beginTransaction();
            send(next, 10, 19);
            next.commitTransaction();
        }
        say("committed", numbers(read(admin, "read_committed")));
    }

    static void create(Admin admin, String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, PARTITIONS, (short) 1))).all().get();
    }

    static KafkaProducer<String, String> producer(String id, String... own) {
        Map<String, Object> config = new TreeMap<>(Map.of(
                "bootstrap.servers", address, "transactional.id", topic + "-" + id));
        for (String option : own) {
            String[] pair = option.split("=", 2);
            config.put(pair[0], pair[1]);
        }
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    /** Send numbers, and wait until they are written. */
    static void send(KafkaProducer<String, String> producer, int first, int last) {
        for (int number = first; number <= last; number++) {
            producer.send(new ProducerRecord<>(topic, number % PARTITIONS, null, "" + number));
        }
        producer.flush();
    }

    static KafkaConsumer<String, String> reader(String isolation, String group) {
        Map<String, Object> config = new TreeMap<>(Map.of(
                "bootstrap.servers", address, "isolation.level", isolation, "group.id", group,
                "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        for (String option : options) {
            String[] pair = option.split("=", 2);
            config.put(pair[0], pair[1]);
        }
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    static List<ConsumerRecord<String, String>> read(Admin admin, String isolation)
            throws Exception {
        return readTopic(admin, topic, isolation);
    }

    /** Read a topic until the position in each partition is where such a reader ends. */
    static List<ConsumerRecord<String, String>> readTopic(
            Admin admin, String name, String isolation) throws Exception {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        try (var reader = reader(isolation, "nobody")) {
            Set<TopicPartition> all = partitions(name);
            reader.assign(all);
            reader.seekToBeginning(all);
            Map<TopicPartition, Long> ends = reader.endOffsets(all);
            for (long end = deadline();
                    all.stream().anyMatch(each -> reader.position(each) < ends.get(each));
                    checkTime(end, records)) {
                reader.poll(POLL).forEach(records::add);
            }
        }
        return records;
    }

    static Set<TopicPartition> partitions(String name) {
        Set<TopicPartition> all = new java.util.HashSet<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            all.add(new TopicPartition(name, partition));
        }
        return all;
    }

    static Map<TopicPartition, Long> ends(Admin admin, IsolationLevel isolation)
            throws Exception {
        return admin.listOffsets(
                        partitions(topic).stream().collect(
                                Collectors.toMap(each -> each, each -> OffsetSpec.latest())),
                        new org.apache.kafka.clients.admin.ListOffsetsOptions(isolation))
                .all().get().entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, each -> each.getValue().offset()));
    }

    static Map<Integer, Long> committed(Admin admin, String group) throws Exception {
        Map<Integer, Long> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .forEach((place, offset) -> offsets.put(place.partition(), offset.offset()));
        return offsets;
    }

    static Set<Integer> numbers(List<ConsumerRecord<String, String>> records) {
        Set<Integer> numbers = new TreeSet<>();
        for (ConsumerRecord<String, String> record : records) {
            if (!numbers.add(Integer.valueOf(record.value()))) {
                throw new AssertionError(record + " was read twice");
            }
        }
        return numbers;
    }

    static String whatHappens(Runnable action) {
        try {
            action.run();
            return "nothing";
        } catch (KafkaException error) {
            Throwable cause = error.getCause() instanceof KafkaException ? error.getCause() : error;
            return cause.getClass().getSimpleName();
        }
    }

    static long deadline() {
        return System.currentTimeMillis() + LIMIT_MS;
    }

    static void checkTime(long deadline, Object state) {
        if (System.currentTimeMillis() > deadline) {
            throw new AssertionError("not in time: " + state);
        }
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}

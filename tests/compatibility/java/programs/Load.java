import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The load of a Java client on a cluster (tests/cluster/loads): history lines on stdout.
 *
 * <p>Load.java ADDRESS NAME [NAME=VALUE of a consumer]...
 */
public final class Load {
    static final String SENT = "sent";
    static final String COPIED = "copied";
    static final int PARTITIONS = 6;
    static final int IN_FLIGHT_MAX = 300;
    static final int ABORTED_ONE_IN = 5;
    static final Duration POLL = Duration.ofMillis(100);
    static final PrintStream OUT = new PrintStream(System.out, false);

    static String address;
    static String name;
    static List<String> options;
    static volatile boolean isFinishing;
    static volatile boolean isStopping;

    public static void main(String[] args) throws Exception {
        address = args[0];
        name = args[1];
        options = List.of(args).subList(2, args.length);
        Thread sender = start(Load::send);
        List<Thread> others = new ArrayList<>();
        others.add(start(() -> read(name + "-reader-1")));
        others.add(start(() -> read(name + "-reader-2")));
        others.add(start(Load::copy));
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            isFinishing = true;
            sender.join();
            say("finished");
        }
        isFinishing = true;
        isStopping = true;
        sender.join();
        for (Thread each : others) {
            each.join();
        }
    }

    interface Work {
        void run() throws Exception;
    }

    static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                error.printStackTrace();
                System.err.flush();
                Runtime.getRuntime().halt(1);
            }
        });
        thread.start();
        return thread;
    }

    // ---- the workers ---------------------------------------------------------------------------

    /** An idempotent producer. */
    static void send() throws Exception {
        String process = name + "-sender";
        var random = new Random(process.hashCode());
        var unacknowledged = new AtomicInteger();
        int number = 0;
        try (var producer = producer(Map.of("enable.idempotence", "true", "linger.ms", "2"))) {
            while (!isFinishing) {
                int partition = random.nextInt(PARTITIONS);
                for (int count = 1 + random.nextInt(5); count > 0; count--) {
                    String value = SENT + "," + partition + "," + process + "," + number++;
                    sendOne(producer, process, SENT, partition, value, "", unacknowledged);
                }
                while (unacknowledged.get() > IN_FLIGHT_MAX && !isFinishing) {
                    Thread.sleep(5);
                }
                Thread.sleep(10);
            }
            producer.flush();
        }
    }

    /** A member of a group that commits what it has read. */
    static void read(String process) {
        try (var consumer = joined(process, "readers")) {
            while (!isStopping) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                sayRead(process, records, "");
                var ends = ends(records);
                sayCommit(process, "readers", "invoke", ends);
                try {
                    consumer.commitSync(ends, Duration.ofSeconds(10));
                    sayCommit(process, "readers", "ok", ends);
                } catch (CommitFailedException | RebalanceInProgressException
                        | org.apache.kafka.common.errors.TimeoutException error) {
                    // It may or may not be applied.
                }
            }
        }
    }

    /** Copies a topic to another, with the offsets of what it has read, in transactions. */
    static void copy() {
        String process = name + "-copier";
        var numbers = new AtomicInteger();
        var transactions = new AtomicInteger();
        while (!isStopping) {
            try (var producer = producer(Map.of("transactional.id", process));
                    var consumer = joined(process, "copied-copiers")) {
                producer.initTransactions();
                boolean goesOn = true;
                while (goesOn && !isStopping) {
                    ConsumerRecords<String, String> records = consumer.poll(POLL);
                    if (!records.isEmpty()) {
                        goesOn = copy(process, producer, consumer, records, numbers, transactions);
                    }
                }
            } catch (ProducerFencedException | org.apache.kafka.common.errors.TimeoutException error) {
                // Another producer of the same id ends what this one has left open.
            }
        }
    }

    static boolean copy(
            String process, KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records,
            AtomicInteger numbers, AtomicInteger transactions) {
        String transaction = process + "#" + transactions.incrementAndGet();
        String of = ",\"transaction\":\"" + transaction + "\"";
        producer.beginTransaction();
        say(process, "begin", "ok",
                "\"transaction\":\"" + transaction + "\",\"transactional_id\":\"" + process + "\"");
        sayRead(process, records, of);
        var ends = ends(records);
        boolean commits = transactions.get() % ABORTED_ONE_IN != 0;
        String what = "\"transaction\":\"" + transaction + "\",\"commit\":";
        try {
            for (ConsumerRecord<String, String> record : records) {
                String[] parts = record.value().split(",");
                String value = COPIED + "," + record.partition() + "," + parts[2] + ":" + parts[3]
                        + "," + numbers.getAndIncrement();
                sendOne(producer, process, COPIED, record.partition(), value, of, new AtomicInteger());
            }
            if (commits) {
                sayCommit(process, "copied-copiers", "invoke", ends);
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                say(process, "end", "invoke", what + "true");
                producer.commitTransaction();
                say(process, "end", "ok", what + "true");
                sayCommit(process, "copied-copiers", "ok", ends);
                return true;
            }
            producer.flush();
        } catch (ProducerFencedException error) {
            throw error;
        } catch (KafkaException error) {
            System.err.println("aborts: " + error);
        }
        say(process, "end", "invoke", what + "false");
        producer.abortTransaction();
        say(process, "end", "ok", what + "false");
        return false;
    }

    // ---- clients -------------------------------------------------------------------------------

    static KafkaProducer<String, String> producer(Map<String, String> own) {
        Map<String, Object> config = new HashMap<>(own);
        config.put("bootstrap.servers", address);
        config.put("reconnect.backoff.max.ms", "200");
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> joined(String process, String group) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", address);
        config.put("group.id", group);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("isolation.level", "read_committed");
        config.put("reconnect.backoff.max.ms", "200");
        for (String option : options) {
            String[] parts = option.split("=", 2);
            config.put(parts[0], parts[1]);
        }
        var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(SENT), new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

            @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                for (TopicPartition each : assigned) {
                    say(process, "assign", "ok", place(each.topic(), each.partition()));
                }
            }
        });
        return consumer;
    }

    static void sendOne(
            KafkaProducer<String, String> producer, String process, String topic, int partition,
            String value, String more, AtomicInteger unacknowledged) {
        String what = place(topic, partition) + ",\"values\":[\"" + value
                + "\"],\"delivery\":\"idempotent\"" + more;
        say(process, "send", "invoke", what);
        unacknowledged.incrementAndGet();
        producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
            unacknowledged.decrementAndGet();
            if (error == null) {
                say(process, "send", "ok", what + ",\"offset\":" + metadata.offset());
            } else if (more.isEmpty()) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
    }

    static Map<TopicPartition, OffsetAndMetadata> ends(ConsumerRecords<String, String> records) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            ends.put(new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
        }
        return ends;
    }

    // ---- the history ---------------------------------------------------------------------------

    static void sayRead(String process, ConsumerRecords<String, String> records, String more) {
        for (TopicPartition each : records.partitions()) {
            var read = new StringBuilder();
            for (ConsumerRecord<String, String> record : records.records(each)) {
                read.append(read.isEmpty() ? "" : ",");
                read.append("[" + record.offset() + ",\"" + record.value() + "\"]");
            }
            say(process, "poll", "ok",
                    place(each.topic(), each.partition()) + ",\"records\":[" + read + "]" + more);
        }
    }

    static void sayCommit(
            String process, String group, String type, Map<TopicPartition, OffsetAndMetadata> ends) {
        ends.forEach((each, end) -> say(process, "commit", type,
                place(each.topic(), each.partition()) + ",\"group\":\"" + group + "\",\"offset\":"
                        + end.offset()));
    }

    static String place(String topic, int partition) {
        return "\"topic\":\"" + topic + "\",\"partition\":" + partition;
    }

    static void say(String process, String f, String type, String value) {
        say("{\"process\":\"" + process + "\",\"f\":\"" + f + "\",\"type\":\"" + type
                + "\",\"value\":{" + value + "}}");
    }

    static synchronized void say(String line) {
        OUT.print(line + "\n");
        OUT.flush();
    }
}

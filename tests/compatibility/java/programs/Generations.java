import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What clients from 0.9 to 3.9 do alike, as lines name=value: write with every codec, read from an
 * offset, share a group and resume it. In words that all of these releases know.
 *
 * <p>Generations.java ADDRESS TOPIC COUNT, where COUNT records stand in partition 0 already.
 */
public final class Generations {
    static final String[] CODECS = {"none", "gzip", "snappy", "lz4"};
    static final int EACH = 5;
    static final long LIMIT_MS = 40_000;

    static String address;
    static TopicPartition place;

    public static void main(String[] args) throws Exception {
        address = args[0];
        place = new TopicPartition(args[1], 0);
        int before = Integer.parseInt(args[2]);
        int all = before + CODECS.length * EACH;
        say("found", read(null, before));
        for (String codec : CODECS) {
            say("wrote " + codec, write(codec));
        }
        say("read", read(null, all));
        say("group", read("group-of-" + place.topic(), all).size());
        say("wrote more", write("none"));
        say("resumed", read("group-of-" + place.topic(), EACH));
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }

    static Properties settings(String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return settings;
    }

    /** Writes records that share a set, and returns their offsets. */
    static List<Long> write(String codec) throws Exception {
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        Properties settings =
                settings(
                        "key.serializer", serializer, "value.serializer", serializer,
                        "compression.type", codec, "linger.ms", "100", "acks", "all");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int i = 0; i < EACH; i++) {
                String value = "old-" + codec + "-" + i;
                sent.add(
                        producer.send(
                                new ProducerRecord<String, String>(
                                        place.topic(), place.partition(), "key", value)));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get().offset());
            }
        }
        return offsets;
    }

    /** Reads so many records from the start on, or from where the group is. */
    static List<String> read(String group, int count) throws Exception {
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        Properties settings =
                settings(
                        "key.deserializer", deserializer, "value.deserializer", deserializer,
                        "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                        "session.timeout.ms", "6000", "heartbeat.interval.ms", "500",
                        "group.id", group == null ? "nobody" : group);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            if (group == null) {
                consumer.assign(Collections.singletonList(place));
            } else {
                consumer.subscribe(Arrays.asList(place.topic()));
            }
            long limit = System.currentTimeMillis() + LIMIT_MS;
            long next = -1;
            while (values.size() < count && System.currentTimeMillis() < limit) {
                for (ConsumerRecord<String, String> record : consumer.poll(100)) {
                    if (next >= 0 && record.offset() != next) {
                        say("gap", next + " to " + record.offset());
                    }
                    next = record.offset() + 1;
                    values.add(record.value());
                }
            }
            if (group != null) {
                consumer.commitSync();
            }
        }
        return values;
    }
}

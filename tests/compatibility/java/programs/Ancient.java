import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import kafka.api.FetchRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Kafka 0.8.2's own clients, both producers and the SimpleConsumer, as lines name=value.
 *
 * <p>Ancient.java ADDRESS TOPIC COUNT, where COUNT records stand in partition 0 already.
 */
public final class Ancient {
    static final int EACH = 5;
    static final int TIMEOUT_MS = 10_000;
    static final String CLIENT = "ancient";

    static String host;
    static int port;
    static TopicAndPartition place;
    static SimpleConsumer consumer;

    public static void main(String[] args) throws Exception {
        int colon = args[0].lastIndexOf(':');
        host = args[0].substring(0, colon);
        port = Integer.parseInt(args[0].substring(colon + 1));
        place = new TopicAndPartition(args[1], 0);
        int before = Integer.parseInt(args[2]);
        consumer = new SimpleConsumer(host, port, TIMEOUT_MS, 1 << 16, CLIENT);
        metadata();
        say("found", read(0, before, 1 << 20));
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4"}) {
            say("wrote " + codec, write(codec));
        }
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4"}) {
            writeAsScala(codec);
        }
        int all = before + 8 * EACH;
        say("read", read(0, all, 1 << 20));
        say("in small pieces", read(0, all, 600).size());
        say("from the middle", read(all - 3, 3, 1 << 20));
        say("too small", read(all - EACH, 1, 20));
        say("out of range", fetch(all + 100, 1 << 20).errorCode(place.topic(), 0));
        offsets();
        commits();
        consumer.close();
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }

    static void metadata() {
        List<String> topics = Collections.singletonList(place.topic());
        TopicMetadata found =
                consumer.send(new TopicMetadataRequest(topics)).topicsMetadata().get(0);
        Broker leader = found.partitionsMetadata().get(0).leader();
        say("leader", found.errorCode() + " " + (leader.port() == port));
    }

    /** Writes with the producer that became Kafka's only one. */
    static List<Long> write(String codec) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", host + ":" + port);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "100");
        settings.put("acks", "all");
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        settings.put("key.serializer", serializer);
        settings.put("value.serializer", serializer);
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < EACH; i++) {
                String value = "old-" + codec + "-" + i;
                sent.add(producer.send(new ProducerRecord<>(place.topic(), 0, "key", value)));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get().offset());
            }
        }
        return offsets;
    }

    /** Writes with the producer that was Kafka's first. */
    static void writeAsScala(String codec) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", host + ":" + port);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        settings.put("compression.codec", codec);
        settings.put("request.required.acks", "-1");
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        List<KeyedMessage<String, String>> messages = new ArrayList<>();
        for (int i = 0; i < EACH; i++) {
            messages.add(new KeyedMessage<>(place.topic(), "first-" + codec + "-" + i));
        }
        producer.send(messages);
        producer.close();
    }

    static FetchResponse fetch(long offset, int size) {
        FetchRequest request =
                new FetchRequestBuilder()
                        .clientId(CLIENT)
                        .maxWait(500)
                        .minBytes(1)
                        .addFetch(place.topic(), 0, offset, size)
                        .build();
        return consumer.fetch(request);
    }

    /** Reads so many values; fewer when a fetch brings no whole message. */
    static List<String> read(long offset, int count, int size) throws Exception {
        List<String> values = new ArrayList<>();
        while (values.size() < count) {
            FetchResponse response = fetch(offset, size);
            if (response.hasError()) {
                values.add("error " + response.errorCode(place.topic(), 0));
                return values;
            }
            long before = offset;
            for (MessageAndOffset each : response.messageSet(place.topic(), 0)) {
                if (each.offset() < offset) {
                    continue;
                }
                if (each.offset() != offset) {
                    say("gap", offset + " to " + each.offset());
                }
                java.nio.ByteBuffer payload = each.message().payload();
                byte[] bytes = new byte[payload.remaining()];
                payload.get(bytes);
                values.add(new String(bytes, "UTF-8"));
                offset = each.nextOffset();
            }
            if (offset == before) {
                return values;
            }
        }
        return values;
    }

    static void offsets() {
        for (long time : new long[] {-1, -2, System.currentTimeMillis() + 1000, 1}) {
            Map<TopicAndPartition, PartitionOffsetRequestInfo> wanted = new HashMap<>();
            wanted.put(place, new PartitionOffsetRequestInfo(time, 10));
            long[] found =
                    consumer.getOffsetsBefore(new OffsetRequest(wanted, (short) 0, CLIENT))
                            .offsets(place.topic(), 0);
            say("offsets " + (time > 1 ? "now" : time), Arrays.toString(found));
        }
    }

    /** Offsets of version 0, once ZooKeeper's, and of version 1. */
    static void commits() {
        for (short version = 0; version <= 1; version++) {
            Map<TopicAndPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
            offsets.put(place, new OffsetAndMetadata(7 + version, "note", -1L));
            String group = "group-of-" + place.topic() + version;
            Object error =
                    consumer.commitOffsets(
                                    new OffsetCommitRequest(group, offsets, 1, CLIENT, version))
                            .errors()
                            .get(place);
            OffsetMetadataAndError found =
                    consumer.fetchOffsets(
                                    new OffsetFetchRequest(
                                            group, Arrays.asList(place), version, 2, CLIENT))
                            .offsets()
                            .get(place);
            OffsetMetadataAndError unknown =
                    consumer.fetchOffsets(
                                    new OffsetFetchRequest(
                                            group + "-unknown",
                                            Arrays.asList(place),
                                            version,
                                            3,
                                            CLIENT))
                            .offsets()
                            .get(place);
            say(
                    "commit " + version,
                    error + " " + found.offset() + " " + found.metadata() + " " + unknown.offset()
                            + " " + unknown.error());
        }
    }
}

import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A Java client over whatever security its properties say: it writes values, and reads them.
 *
 * <p>Secured.java PROPERTIES TOPIC FORBIDDEN VALUE...
 *
 * <p>It prints read=VALUES, in their order, and, if FORBIDDEN is not empty, refused=CLASS, which is
 * the error of a write to that topic.
 */
public final class Secured {
    static final Duration LIMIT = Duration.ofSeconds(40);

    public static void main(String[] args) throws Exception {
        Properties given = new Properties();
        try (var file = new FileReader(args[0], StandardCharsets.UTF_8)) {
            given.load(file);
        }
        String token = given.getProperty("sasl.oauthbearer.token.endpoint.url");
        if (token != null) {
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", token);
            System.setProperty(
                "org.apache.kafka.sasl.oauthbearer.allowed.files", token.substring("file://".length()));
        }
        List<String> values = List.of(args).subList(3, args.length);
        try (var producer = new KafkaProducer<>(
                given, new StringSerializer(), new StringSerializer())) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(args[1], value)).get();
            }
            if (!args[2].isEmpty()) {
                System.out.println("refused=" + refusal(producer, args[2]));
            }
        }
        System.out.println("read=" + String.join(",", read(given, args[1], values.size())));
    }

    static String refusal(KafkaProducer<String, String> producer, String topic) throws Exception {
        try {
            producer.send(new ProducerRecord<>(topic, "forbidden")).get();
            return "";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    static List<String> read(Properties given, String topic, int count) {
        Properties own = new Properties();
        own.putAll(given);
        own.put("auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(
                own, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Collections.singleton(topic));
            long end = System.nanoTime() + LIMIT.toNanos();
            while (values.size() < count && System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(200)).forEach(each -> values.add(each.value()));
            }
            consumer.commitSync();
        }
        return values;
    }
}

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A subscription by a pattern that the broker resolves (KIP-848), as lines name=value.
 *
 * <p>Patterns.java ADDRESS TOPIC
 */
public final class Patterns {
    static final long LIMIT_MS = 40_000;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]));
                var consumer = consumer(args[0], topic + "-group");
                var wrong = consumer(args[0], topic + "-wrong")) {
            create(admin, topic + "-a");
            create(admin, "other-" + topic);
            consumer.subscribe(new SubscriptionPattern(topic + "-[ab]"));
            await(consumer, Set.of(topic + "-a"));
            create(admin, topic + "-c");
            create(admin, topic + "-b");
            await(consumer, Set.of(topic + "-a", topic + "-b"));
            System.out.println("topics=" + topics(consumer));

            wrong.subscribe(new SubscriptionPattern("(a"));
            try {
                await(wrong, Set.of("nothing"));
            } catch (InvalidRegularExpression error) {
                System.out.println("wrong=" + error.getClass().getSimpleName());
            }
        }
    }

    static KafkaConsumer<String, String> consumer(String address, String group) {
        return new KafkaConsumer<>(
                Map.of("bootstrap.servers", address, "group.id", group,
                        "group.protocol", "consumer"),
                new StringDeserializer(), new StringDeserializer());
    }

    static void create(Admin admin, String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, 2, (short) 1))).all().get();
    }

    static Set<String> topics(KafkaConsumer<String, String> consumer) {
        Set<String> topics = new TreeSet<>();
        for (TopicPartition place : consumer.assignment()) {
            topics.add(place.topic());
        }
        return topics;
    }

    static void await(KafkaConsumer<String, String> consumer, Set<String> expected) {
        long deadline = System.currentTimeMillis() + LIMIT_MS;
        while (!topics(consumer).equals(expected)) {
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("not in time: " + topics(consumer));
            }
            consumer.poll(Duration.ofMillis(50));
        }
    }
}

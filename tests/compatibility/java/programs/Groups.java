import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Members of a group, all in this process, and what becomes of them, as lines name=value.
 *
 * <p>Groups.java ADDRESS TOPIC shares|returns|follows|rolls [NAME=VALUE of a consumer]...
 */
public final class Groups {
    static final int PARTITIONS = 4;
    static final Duration POLL = Duration.ofMillis(50);
    static final long LIMIT_MS = 40_000;

    static String address;
    static String topic;
    static String[] options;

    public static void main(String[] args) throws Exception {
        address = args[0];
        topic = args[1];
        options = List.of(args).subList(3, args.length).toArray(String[]::new);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            switch (args[2]) {
                case "shares" -> shares(admin);
                case "returns" -> returns(admin);
                case "follows" -> follows(admin);
                case "rolls" -> rolls(admin);
                default -> throw new IllegalArgumentException(args[2]);
            }
        }
    }

    /** One member, then two; both close; the next one goes on where they ended. */
    static void shares(Admin admin) throws Exception {
        create(admin, topic);
        produce(topic, 0, 40);
        try (Member first = new Member("first")) {
            first.subscribe(topic);
            await(() -> first.read.size() >= 40, first);
            say("alone", first.holds() + " reads " + first.readNumbers());
            first.consumer.commitSync();
            first.read.clear();
            try (Member second = new Member("second")) {
                second.subscribe(topic);
                await(() -> first.holds().size() == 2 && second.holds().size() == 2, first, second);
                produce(topic, 40, 80);
                await(() -> first.read.size() + second.read.size() >= 40, first, second);
                Set<Integer> both = new TreeSet<>(first.holds());
                both.addAll(second.holds());
                say("shared", both);
                Set<Integer> numbers = first.readNumbers();
                numbers.addAll(second.readNumbers());
                say("together", (first.read.size() + second.read.size()) + " reads " + numbers);
                first.consumer.commitSync();
                second.consumer.commitSync();
            }
        }
        produce(topic, 80, 84);
        try (Member next = new Member("next")) {
            next.subscribe(topic);
            await(() -> next.read.size() >= 4, next);
            say("resumed", next.readNumbers());
        }
    }

    /** A static member goes away and comes back; the other one must not notice. */
    static void returns(Admin admin) throws Exception {
        create(admin, topic);
        try (Member stays = new Member("stays", "group.instance.id=stays")) {
            stays.subscribe(topic);
            Set<Integer> before;
            try (Member leaves = new Member("leaves", "group.instance.id=leaves")) {
                leaves.subscribe(topic);
                await(() -> stays.holds().size() == 2 && leaves.holds().size() == 2, stays, leaves);
                before = leaves.holds();
            }
            int changes = stays.changes;
            try (Member back = new Member("back", "group.instance.id=leaves")) {
                back.subscribe(topic);
                await(() -> back.holds().size() == 2, stays, back);
                produce(topic, 0, 40);
                await(() -> stays.read.size() + back.read.size() >= 40, stays, back);
                say("kept", back.holds().equals(before));
                say("noticed", stays.changes - changes);
            }
        }
    }

    /** A subscription by pattern gets a topic that is created later. */
    static void follows(Admin admin) throws Exception {
        create(admin, topic + "-a");
        create(admin, "other-" + topic);
        try (Member member = new Member("member", "metadata.max.age.ms=300")) {
            member.consumer.subscribe(Pattern.compile(topic + "-.*"), member);
            await(() -> member.holds().size() == PARTITIONS, member);
            create(admin, topic + "-b");
            await(() -> member.holds().size() == PARTITIONS
                    && member.consumer.assignment().size() == 2 * PARTITIONS, member);
            produce(topic + "-b", 0, 8);
            await(() -> member.read.size() >= 8, member);
            say("topics", new TreeSet<>(member.consumer.assignment().stream()
                    .map(TopicPartition::topic).collect(Collectors.toSet())));
            say("read", member.readNumbers());
        }
    }

    /** Three members are replaced, one after the other, by some of the new protocol, and back. */
    static void rolls(Admin admin) throws Exception {
        create(admin, topic);
        Member[] members = new Member[3];
        Set<Integer> read = new TreeSet<>();
        String[] server = {"group.protocol=consumer"};
        int round = 0;
        for (String[] protocol : new String[][] {options, server, options}) {
            for (int place = 0; place < members.length; place++) {
                if (members[place] != null) {
                    members[place].close();
                    read.addAll(members[place].readNumbers());
                }
                members[place] = new Member(protocol, "member " + place);
                members[place].subscribe(topic);
                await(() -> isShared(members), members);
                produce(topic, 4 * round, 4 * round + 4);
                int wanted = 4 * ++round;
                await(() -> isShared(members) && readBy(members, read).size() >= wanted, members);
            }
            say("after " + (protocol == server ? "up" : read.isEmpty() ? "start" : "down"),
                    type(admin));
        }
        for (Member member : members) {
            member.close();
        }
        say("read", readBy(members, read).size());
    }

    /** Whether every partition has an owner and every member a partition; none may have two. */
    static boolean isShared(Member[] members) {
        List<Integer> held = new ArrayList<>();
        boolean allHave = true;
        for (Member member : members) {
            if (member != null) {
                held.addAll(member.holds());
                allHave &= !member.holds().isEmpty();
            }
        }
        if (new TreeSet<>(held).size() < held.size()) {
            throw new AssertionError("owned twice: " + Arrays.toString(members));
        }
        return allHave && held.size() == PARTITIONS;
    }

    static Set<Integer> readBy(Member[] members, Set<Integer> before) {
        Set<Integer> all = new TreeSet<>(before);
        for (Member member : members) {
            all.addAll(member == null ? Set.of() : member.readNumbers());
        }
        return all;
    }

    @SuppressWarnings("deprecation") // The name that both releases have.
    static String type(Admin admin) throws Exception {
        return admin.listConsumerGroups().all().get().stream()
                .filter(group -> group.groupId().equals(topic + "-group"))
                .map(group -> group.type().get().toString()).findFirst().orElse("none");
    }

    static void create(Admin admin, String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, PARTITIONS, (short) 1))).all().get();
    }

    static void produce(String to, int from, int end) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        try (var producer = new KafkaProducer<>(
                properties, new StringSerializer(), new StringSerializer())) {
            for (int number = from; number < end; number++) {
                producer.send(new ProducerRecord<>(to, number % PARTITIONS, null, "" + number));
            }
        }
    }

    /** Poll every member in turn until something holds. */
    static void await(BooleanSupplier condition, Member... members) {
        long deadline = System.currentTimeMillis() + LIMIT_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("not in time: " + Arrays.toString(members));
            }
            for (Member member : members) {
                if (member != null) {
                    member.poll();
                }
            }
        }
    }

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }

    /** A consumer, what it has read, and how often its partitions changed. */
    static final class Member implements ConsumerRebalanceListener, AutoCloseable {
        final String name;
        final KafkaConsumer<String, String> consumer;
        final List<ConsumerRecord<String, String>> read = new ArrayList<>();
        int changes;

        Member(String name, String... own) {
            this(options, name, own);
        }

        Member(String[] protocol, String name, String... own) {
            this.name = name;
            Properties properties = new Properties();
            properties.put("bootstrap.servers", address);
            properties.put("group.id", topic + "-group");
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            for (String[] some : new String[][] {protocol, own}) {
                for (String option : some) {
                    String[] pair = option.split("=", 2);
                    properties.put(pair[0], pair[1]);
                }
            }
            consumer = new KafkaConsumer<>(
                    properties, new StringDeserializer(), new StringDeserializer());
        }

        void subscribe(String to) {
            consumer.subscribe(List.of(to), this);
        }

        void poll() {
            consumer.poll(POLL).forEach(read::add);
        }

        Set<Integer> holds() {
            return consumer.assignment().stream().map(TopicPartition::partition)
                    .collect(Collectors.toCollection(TreeSet::new));
        }

        Set<Integer> readNumbers() {
            return read.stream().map(record -> Integer.valueOf(record.value()))
                    .collect(Collectors.toCollection(TreeSet::new));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            changes += partitions.isEmpty() ? 0 : 1;
            consumer.commitSync();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            changes++; // They may be somebody else's already: nothing is committed.
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            changes += partitions.isEmpty() ? 0 : 1;
        }

        @Override
        public String toString() {
            return name + " holds " + consumer.assignment() + ", has read " + read.size();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}

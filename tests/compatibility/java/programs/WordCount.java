import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams counts the words of a topic into another one until its standard input ends.
 *
 * <p>WordCount.java ADDRESS FROM TO FOLDER NAME=VALUE... (settings of the application; with
 * on.error=exit the first error of a thread ends the process, else the thread is replaced)
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", args[1] + "-counter");
        config.put("state.dir", args[3]);
        config.put("default.key.serde", Serdes.StringSerde.class);
        config.put("default.value.serde", Serdes.StringSerde.class);
        config.put("statestore.cache.max.bytes", "0"); // Every single count is written.
        config.put("auto.offset.reset", "earliest");
        for (String setting : Arrays.copyOfRange(args, 4, args.length)) {
            String[] pair = setting.split("=", 2);
            config.put(pair[0], pair[1]);
        }
        boolean exits = "exit".equals(config.remove("on.error"));

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[1])
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                // By word: the records pass through a topic of the application's own.
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> count.toString())
                .to(args[2], Produced.with(Serdes.String(), Serdes.String()));

        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                if (exits) {
                    Runtime.getRuntime().halt(1);
                }
                return StreamThreadExceptionResponse.REPLACE_THREAD;
            });
            streams.start();
            while (System.in.read() >= 0) {
                // Goes on until the test closes the pipe.
            }
        }
    }
}

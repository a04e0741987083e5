import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Writes FOLDER/settings.jsonl: each setting of a broker, its type, and its default as text. */
public final class MakeSettings {
    private MakeSettings() {
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Files.createDirectories(folder);
        ObjectMapper json = new ObjectMapper();
        try (PrintWriter file = new PrintWriter(
                folder.resolve("settings.jsonl").toFile(), StandardCharsets.UTF_8)) {
            for (ConfigDef.ConfigKey key
                    : new TreeMap<>(KafkaConfig.configDef().configKeys()).values()) {
                Map<String, Object> line = new LinkedHashMap<>();
                line.put("name", key.name);
                line.put("type", key.type.name());
                line.put("default", text(key));
                file.println(json.writeValueAsString(line));
            }
        }
    }

    /** Null: none, or no default at all. */
    private static String text(ConfigDef.ConfigKey key) {
        Object value = key.hasDefault() ? key.defaultValue : null;
        return value instanceof List<?> list
            ? String.join(",", list.stream().map(String::valueOf).toList())
            : value == null ? null : value.toString();
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Writes every message of the Kafka jars on the class path as bytes and as JSON, filled by rule.
 *
 * <p>Usage: MakeMessages FOLDER [NEWER]. FOLDER/messages.jsonl gets each message in each of its
 * versions, unstable ones too, and FOLDER/defaults.jsonl what each field is when nobody sets it.
 * With NEWER, a folder made by a newer release, messages.jsonl gets only what that release has no
 * more: the versions before its oldest, and messages that it does not have.
 *
 * <p>A message is filled in three ways. "set": no field has its default, every array has two
 * elements, and in the second all that may be null is null. "null": all that may be null is, the
 * rest is as small as can be. "default": nothing is set.
 */
public class MakeMessages {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final String CONVERTER = "JsonConverter";
    private static final List<String> KINDS =
            List.of("request", "response", "header", "data", "key", "value");

    private enum Filling { SET, NULL, DEFAULT }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Map<String, Integer> newer =
                arguments.length > 1 ? oldestVersions(Path.of(arguments[1])) : Map.of();
        Files.createDirectories(folder);
        try (PrintStream messages = lines(folder.resolve("messages.jsonl"));
                PrintStream defaults = lines(folder.resolve("defaults.jsonl"))) {
            for (Generated generated : generatedMessages()) {
                int end = newer.getOrDefault(generated.name(), generated.newest() + 1);
                if (generated.oldest() < end) {
                    ObjectNode line = generated.line();
                    line.set("defaults", defaultsOf(generated.data));
                    defaults.println(line);
                }
                for (int version = generated.oldest(); version < end; version++) {
                    for (Filling filling : Filling.values()) {
                        printVector(generated, (short) version, filling, messages);
                    }
                }
            }
        }
    }

    private static PrintStream lines(Path file) throws IOException {
        return new PrintStream(Files.newOutputStream(file), false, StandardCharsets.UTF_8);
    }

    /** The lowest version of each message that another run has written. */
    private static Map<String, Integer> oldestVersions(Path folder) throws IOException {
        Map<String, Integer> oldest = new HashMap<>();
        for (String line : Files.readAllLines(folder.resolve("messages.jsonl"))) {
            JsonNode vector = MAPPER.readTree(line);
            oldest.merge(vector.get("name").asText(), vector.get("version").asInt(), Math::min);
        }
        return oldest;
    }

    private static void printVector(
            Generated generated, short version, Filling filling, PrintStream out) throws Exception {
        Message message = generated.newMessage();
        if (filling != Filling.DEFAULT) {
            new Filler(filling, version).fill(message, generated.schema(version), false);
        }
        byte[] bytes = encode(message, version);
        Message read = generated.newMessage();
        read.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), version);
        if (!read.equals(message)) {
            throw new IllegalStateException(message + " was read as " + read);
        }
        ObjectNode line = generated.line();
        line.put("version", version);
        generated.putHeaderVersion(line, version);
        line.put("filling", filling.name().toLowerCase());
        line.put("hex", HexFormat.of().formatHex(bytes));
        line.set("json", generated.json(message, version));
        out.println(line);
    }

    private static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(message + " is smaller than its size");
        }
        return buffer.array();
    }

    // ---- which messages there are ---------------------------------------------------------------

    private record Generated(Class<?> data, Class<?> converter, String kind) {
        String name() {
            String name = data.getSimpleName();
            boolean hasSuffix = KINDS.indexOf(kind) < KINDS.indexOf("data");
            return hasSuffix ? name.substring(0, name.length() - "Data".length()) : name;
        }

        Message newMessage() throws Exception {
            return (Message) data.getConstructor().newInstance();
        }

        int apiKey() throws Exception {
            return newMessage() instanceof ApiMessage message ? message.apiKey() : -1;
        }

        Schema schema(int version) throws Exception {
            return ((Schema[]) data.getField("SCHEMAS").get(null))[version];
        }

        int oldest() throws Exception {
            return data.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
        }

        int newest() throws Exception {
            return data.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        }

        void putHeaderVersion(ObjectNode line, short version) throws Exception {
            if (kind.equals("request")) {
                ApiMessageType type = ApiMessageType.fromApiKey((short) apiKey());
                line.put("header_version", type.requestHeaderVersion(version));
            } else if (kind.equals("response")) {
                ApiMessageType type = ApiMessageType.fromApiKey((short) apiKey());
                line.put("header_version", type.responseHeaderVersion(version));
            }
        }

        JsonNode json(Message message, short version) throws Exception {
            // Without the content of records, of which Kafka's JSON only has the size.
            return (JsonNode) converter.getMethod("write", data, short.class, boolean.class)
                    .invoke(null, message, version, false);
        }

        ObjectNode line() throws Exception {
            ObjectNode line = MAPPER.createObjectNode();
            line.put("kind", kind);
            if (apiKey() >= 0) {
                line.put("api", apiKey());
            }
            return line.put("name", name());
        }
    }

    /** All of the jars, ordered by kind, key and name. */
    private static Collection<Generated> generatedMessages() throws Exception {
        Map<String, Generated> found = new TreeMap<>();
        for (String jar : System.getProperty("java.class.path").split(":")) {
            if (!jar.endsWith(".jar")) {
                continue;
            }
            try (JarFile file = new JarFile(jar)) {
                for (Enumeration<JarEntry> all = file.entries(); all.hasMoreElements();) {
                    String entry = all.nextElement().getName();
                    if (entry.endsWith(CONVERTER + ".class") && !entry.contains("$")) {
                        Generated generated = generated(entry);
                        int kind = KINDS.indexOf(generated.kind);
                        int key = generated.apiKey();
                        found.put("%d %3d %s".formatted(kind, key, generated.name()), generated);
                    }
                }
            }
        }
        return found.values();
    }

    private static Generated generated(String entry) throws ClassNotFoundException {
        String converter = entry.substring(0, entry.length() - ".class".length()).replace('/', '.');
        String data = converter.substring(0, converter.length() - CONVERTER.length());
        return new Generated(Class.forName(data), Class.forName(converter), kindOf(data));
    }

    private static String kindOf(String data) {
        if (data.contains(".coordinator.")) {
            return data.endsWith("Key") ? "key" : "value";
        }
        for (String kind : List.of("header", "request", "response")) {
            if (data.toLowerCase().endsWith(kind + "data")) {
                return kind;
            }
        }
        return "data";
    }

    // ---- what the fields are set to -------------------------------------------------------------

    /** Sets the fields that a version has, by its schema: a class has those of all versions. */
    private static final class Filler {
        private static final int LONG_TEXT = 150;

        private final Filling filling;
        private final short version;
        private long count;

        Filler(Filling filling, short version) {
            this.filling = filling;
            this.version = version;
        }

        void fill(Object struct, Schema schema, boolean isSecond) throws Exception {
            for (BoundField field : schema.fields()) {
                if (field.def.type instanceof TaggedFields section) {
                    for (Field tagged : fieldsOf(section)) {
                        set(struct, tagged, isSecond);
                    }
                } else {
                    set(struct, field.def, isSecond);
                }
            }
        }

        /** The fields of a section, which older releases keep to themselves. */
        @SuppressWarnings("unchecked")
        private static Collection<Field> fieldsOf(TaggedFields section) throws Exception {
            java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
            fields.setAccessible(true);
            return ((Map<Integer, Field>) fields.get(section)).values();
        }

        private void set(Object struct, Field field, boolean isSecond) throws Exception {
            java.lang.reflect.Field target = member(struct.getClass(), field.name);
            target.setAccessible(true);
            if (field.type.isNullable() && (filling == Filling.NULL || isSecond)) {
                target.set(struct, null);
                return;
            }
            Object unset = target.get(struct);
            Object value;
            do {
                value = value(target.getType(), target.getGenericType(), field.type, isSecond);
            } while (filling == Filling.SET && value.equals(unset));
            target.set(struct, value);
        }

        private Object value(
                Class<?> type, java.lang.reflect.Type generic, Type schema, boolean isSecond)
                throws Exception {
            if (Collection.class.isAssignableFrom(type)) {
                return array(type, generic, schema, isSecond);
            }
            if (Message.class.isAssignableFrom(type)) {
                Object struct = type.getConstructor().newInstance();
                fill(struct, (Schema) schema, isSecond);
                return struct;
            }
            return filling == Filling.NULL ? smallest(type, schema) : next(type, schema);
        }

        @SuppressWarnings("unchecked")
        private Object array(
                Class<?> type, java.lang.reflect.Type generic, Type schema, boolean isSecond)
                throws Exception {
            Class<?> element = elementOf(type, generic);
            Collection<Object> array = type == List.class
                    ? new ArrayList<>()
                    : (Collection<Object>) type.getConstructor().newInstance();
            int size = filling == Filling.NULL ? 1 : 2;
            for (int i = 0; i < size; i++) {
                Type elementSchema = schema.arrayElementType().orElseThrow();
                array.add(value(element, element, elementSchema, isSecond || i > 0));
            }
            return array;
        }

        private Object smallest(Class<?> type, Type schema) throws Exception {
            return switch (type.getSimpleName()) {
                case "boolean", "Boolean" -> false;
                case "byte", "Byte" -> Byte.MIN_VALUE;
                case "short", "Short" -> Short.MIN_VALUE;
                case "int", "Integer" -> schema == Type.UINT16 ? 0 : Integer.MIN_VALUE;
                case "long", "Long" -> schema == Type.UNSIGNED_INT32 ? 0L : Long.MIN_VALUE;
                case "double" -> -Double.MAX_VALUE;
                case "String" -> "";
                case "byte[]" -> new byte[0];
                case "ByteBuffer" -> ByteBuffer.allocate(0);
                case "Uuid" -> Uuid.ZERO_UUID;
                case "BaseRecords" -> memoryRecords(type)
                        .getMethod("readableRecords", ByteBuffer.class)
                        .invoke(null, ByteBuffer.allocate(0));
                default -> throw new IllegalStateException(type.toString());
            };
        }

        /** The next value of a series that has both signs and texts of several lengths. */
        private Object next(Class<?> type, Type schema) throws Exception {
            count++;
            return switch (type.getSimpleName()) {
                case "boolean", "Boolean" -> count % 2 == 0;
                case "byte", "Byte" -> (byte) (count * 0x1d);
                case "short", "Short" -> (short) (count * 0x1d2f);
                case "int", "Integer" -> schema == Type.UINT16
                        ? (int) (count * 0x1d2f) & 0xffff
                        : (int) (count * 0x1d2f4b69);
                case "long", "Long" -> schema == Type.UNSIGNED_INT32
                        ? count * 0x1d2f4b69 & 0xffffffffL
                        : count * 0x1d2f4b6985a3c1e7L;
                case "double" -> count * -1.25;
                case "String" -> text();
                case "byte[]" -> text().getBytes(StandardCharsets.UTF_16BE);
                case "ByteBuffer" -> ByteBuffer.wrap(text().getBytes(StandardCharsets.UTF_16BE));
                case "Uuid" -> new Uuid(count * 0x1d2f4b6985a3c1e7L, count * 0x7e1c3a5896b4f2d1L);
                case "BaseRecords" -> someRecords(type);
                default -> throw new IllegalStateException(type.toString());
            };
        }

        private String text() {
            if (count % 10 == 0) {
                return "x".repeat(LONG_TEXT - 3) + count; // whose compact length has two bytes
            }
            return count % 3 == 0 ? "\u00e9\u20ac\ud83d\ude00" + count : "text " + count;
        }

        /** A batch, or a message where the version is old enough for one. */
        private Object someRecords(Class<?> type) throws Exception {
            byte magic = (byte) (version < 2 ? 0 : version < 3 ? 1 : 2);
            Class<?> recordType = Class.forName(type.getPackageName() + ".SimpleRecord");
            byte[] value = text().getBytes(StandardCharsets.UTF_8);
            Object record = recordType.getConstructor(long.class, byte[].class, byte[].class)
                    .newInstance(magic == 0 ? -1 : count, null, value);
            Object array = Array.newInstance(recordType, 1);
            Array.set(array, 0, record);
            return memoryRecords(type)
                    .getMethod("withRecords", byte.class, Compression.class, array.getClass())
                    .invoke(null, magic, Compression.NONE, array);
        }

        /** MemoryRecords, which is not in the same package in every release. */
        private static Class<?> memoryRecords(Class<?> sibling) throws ClassNotFoundException {
            return Class.forName(sibling.getPackageName() + ".MemoryRecords");
        }
    }

    private static Class<?> elementOf(Class<?> type, java.lang.reflect.Type generic) {
        // A set with keys is a class of its own that extends a collection of its elements.
        java.lang.reflect.Type array = type == List.class ? generic : type.getGenericSuperclass();
        return (Class<?>) ((ParameterizedType) array).getActualTypeArguments()[0];
    }

    /** The member of a class that holds what a schema calls snake_case. */
    private static java.lang.reflect.Field member(Class<?> type, String name) {
        for (java.lang.reflect.Field field : type.getDeclaredFields()) {
            if (field.getName().equalsIgnoreCase(name.replace("_", ""))) {
                return field;
            }
        }
        throw new IllegalStateException(type + " has no " + name);
    }

    // ---- what fields are when nobody sets them --------------------------------------------------

    /** The fields of a fresh object; those of an array's element stand under "name[]". */
    private static ObjectNode defaultsOf(Class<?> type) throws Exception {
        Object fresh = type.getConstructor().newInstance();
        ObjectNode defaults = MAPPER.createObjectNode();
        for (java.lang.reflect.Field field : type.getDeclaredFields()) {
            String name = field.getName();
            boolean isOurs = List.of("_unknownTaggedFields", "next", "prev").contains(name);
            if (isOurs || Modifier.isStatic(field.getModifiers())) {
                continue;
            }
            field.setAccessible(true);
            Object value = field.get(fresh);
            if (Collection.class.isAssignableFrom(field.getType())) {
                defaults.set(name, value == null ? null : MAPPER.createArrayNode());
                Class<?> element = elementOf(field.getType(), field.getGenericType());
                if (Message.class.isAssignableFrom(element)) {
                    defaults.set(name + "[]", defaultsOf(element));
                }
            } else if (Message.class.isAssignableFrom(field.getType())) {
                defaults.set(name, value == null ? null : MAPPER.createObjectNode());
                defaults.set(name + "{}", defaultsOf(field.getType()));
            } else {
                defaults.set(name, scalar(value));
            }
        }
        return defaults;
    }

    private static JsonNode scalar(Object value) {
        if (value instanceof Uuid) {
            return MAPPER.valueToTree(value.toString());
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return MAPPER.valueToTree(bytes);
        }
        return MAPPER.valueToTree(value);
    }
}

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/**
 * Writes record batches of every magic and compression, and what Kafka's own classes read in them.
 *
 * <p>Usage: MakeBatches FOLDER. FOLDER/batches.jsonl gets one case a line: the bytes of one or more
 * batches, and under "batches" the fields and records that an iteration over them yields.
 * FOLDER/hashes.jsonl gets keys, their checksums and the partitions they belong to.
 */
public class MakeBatches {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final long BASE_OFFSET = 5_000_000_000L;
    private static final long NOW = 1_700_000_000_123L;
    private static final long APPEND_TIME = 1_700_000_111_222L;
    private static final int LEADER_EPOCH = 7;

    private record Row(long offset, long timestamp, byte[] key, byte[] value, Header... headers) {}

    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[0]);
        Files.createDirectories(folder);
        try (PrintStream out = lines(folder.resolve("batches.jsonl"))) {
            for (byte magic = 0; magic <= RecordBatch.CURRENT_MAGIC_VALUE; magic++) {
                for (CompressionType codec : CompressionType.values()) {
                    if (codec != CompressionType.ZSTD || magic == RecordBatch.MAGIC_VALUE_V2) {
                        printOfCodec(magic, Compression.of(codec).build(), out);
                    }
                }
            }
            printProducers(out);
            printControl(out);
            printSequencesOfBatches(out);
        }
        try (PrintStream out = lines(folder.resolve("hashes.jsonl"))) {
            printHashes(out);
        }
    }

    private static PrintStream lines(Path file) throws IOException {
        return new PrintStream(Files.newOutputStream(file), false, StandardCharsets.UTF_8);
    }

    // ---- cases ----------------------------------------------------------------------------------

    private static void printOfCodec(byte magic, Compression compression, PrintStream out) {
        String name = "magic %d, %s".formatted(magic, compression.type().name);
        for (TimestampType type : TimestampType.values()) {
            if ((magic == 0) == (type == TimestampType.NO_TIMESTAMP_TYPE)) {
                print(name + ", " + type.name, of(magic, compression, type, nulls(magic)), out);
            }
        }
        TimestampType type =
                magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        print(name + ", one record", of(magic, compression, type, nulls(magic).subList(0, 1)), out);
        print(name + ", incompressible", of(magic, compression, type, random(magic)), out);
        print(name + ", large values", of(magic, compression, type, large(magic)), out);
        print(name + ", gaps between offsets", of(magic, compression, type, gaps(magic)), out);
        print("compacted from " + name, compacted(of(magic, compression, type, gaps(magic))), out);
        if (magic == RecordBatch.MAGIC_VALUE_V2) {
            print(name + ", headers", of(magic, compression, type, headers()), out);
            print(name + ", extremes", of(magic, compression, type, extremes()), out);
        }
    }

    private static long timestamp(byte magic, long timestamp) {
        return magic == 0 ? RecordBatch.NO_TIMESTAMP : timestamp;
    }

    private static List<Row> nulls(byte magic) {
        return List.of(
                new Row(BASE_OFFSET, timestamp(magic, NOW), bytes("key"), bytes("value")),
                new Row(BASE_OFFSET + 1, timestamp(magic, NOW + 5), null, bytes("no key")),
                new Row(BASE_OFFSET + 2, timestamp(magic, NOW - 70), bytes("no value"), null),
                new Row(BASE_OFFSET + 3, timestamp(magic, NOW + 80_000), null, null),
                new Row(BASE_OFFSET + 4, timestamp(magic, NOW), bytes(""), bytes("")));
    }

    private static List<Row> random(byte magic) {
        byte[] value = new byte[200];
        new Random(1).nextBytes(value);
        return List.of(new Row(BASE_OFFSET, timestamp(magic, NOW), null, value));
    }

    /** More than one block of lz4 (64 KB) and of snappy (32 KB), and lengths of three bytes. */
    private static List<Row> large(byte magic) {
        byte[] value = bytes("0123456789abcdef".repeat(2500));
        return List.of(
                new Row(BASE_OFFSET, timestamp(magic, NOW), bytes("k".repeat(200)), value),
                new Row(BASE_OFFSET + 1, timestamp(magic, NOW), null, value),
                new Row(BASE_OFFSET + 2, timestamp(magic, NOW), null, bytes("the last")));
    }

    private static List<Row> gaps(byte magic) {
        return List.of(
                new Row(BASE_OFFSET + 3, timestamp(magic, NOW), bytes("a"), bytes("1")),
                new Row(BASE_OFFSET + 10, timestamp(magic, NOW + 1), bytes("b"), bytes("2")),
                new Row(BASE_OFFSET + 11, timestamp(magic, NOW + 2), bytes("a"), bytes("3")),
                new Row(BASE_OFFSET + 500, timestamp(magic, NOW + 3), bytes("c"), bytes("4")));
    }

    private static List<Row> headers() {
        return List.of(
                new Row(0, NOW, bytes("k"), bytes("v"), header("name", bytes("value"))),
                new Row(1, NOW, bytes("k"), bytes("v")),
                new Row(2, NOW, null, null,
                        header("", bytes("")),
                        header("null", null),
                        header("\u00e9\u20ac\ud83d\ude00", bytes("\u0000")),
                        header("name", bytes("first")),
                        header("name", bytes("second"))),
                new Row(3, NOW, null, bytes("v"), header("n".repeat(130), new byte[300])));
    }

    /** Differences of timestamps and offsets as far apart as they can be. */
    private static List<Row> extremes() {
        return List.of(
                new Row(0, Long.MAX_VALUE, null, null),
                new Row(1, 0, null, null),
                new Row(127, 1L << 40, null, null),
                new Row(Integer.MAX_VALUE, 1, null, null));
    }

    private static void printProducers(PrintStream out) {
        for (boolean isTransactional : List.of(false, true)) {
            for (int sequence : List.of(0, Integer.MAX_VALUE - 1)) {
                MemoryRecordsBuilder builder = builder(
                        RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME,
                        BASE_OFFSET, RecordBatch.NO_TIMESTAMP, isTransactional, false);
                builder.setProducerState(1L << 33, (short) 12, sequence, isTransactional);
                for (Row row : nulls(RecordBatch.MAGIC_VALUE_V2)) {
                    append(builder, row);
                }
                String kind = isTransactional ? "transactional" : "idempotent";
                print("%s from sequence %d".formatted(kind, sequence), builder.build(), out);
            }
        }
        MemoryRecordsBuilder horizon = builder(
                RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME,
                BASE_OFFSET, NOW + 1_000_000, false, false);
        nulls(RecordBatch.MAGIC_VALUE_V2).forEach(row -> append(horizon, row));
        print("a delete horizon", horizon.build(), out);

        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(
                empty, RecordBatch.MAGIC_VALUE_V2, 1234L, (short) 3, 17, BASE_OFFSET,
                BASE_OFFSET + 20, LEADER_EPOCH, TimestampType.CREATE_TIME, NOW, true, false);
        empty.flip();
        print("emptied by compaction", MemoryRecords.readableRecords(empty), out);
    }

    private static void printControl(PrintStream out) {
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) {
            EndTransactionMarker marker = new EndTransactionMarker(type, 29);
            print("control: " + type, MemoryRecords.withEndTransactionMarker(
                    BASE_OFFSET, NOW, LEADER_EPOCH, 1L << 33, (short) 12, marker), out);
        }
        List<LeaderChangeMessage.Voter> voters = List.of(
                new LeaderChangeMessage.Voter().setVoterId(1),
                new LeaderChangeMessage.Voter().setVoterId(2));
        LeaderChangeMessage leader = new LeaderChangeMessage()
                .setLeaderId(1).setVoters(voters).setGrantingVoters(voters.subList(0, 1));
        print("control: LEADER_CHANGE", MemoryRecords.withLeaderChangeMessage(
                BASE_OFFSET, NOW, LEADER_EPOCH, ByteBuffer.allocate(512), leader), out);
        print("control: SNAPSHOT_HEADER", MemoryRecords.withSnapshotHeaderRecord(
                BASE_OFFSET, NOW, LEADER_EPOCH, ByteBuffer.allocate(512),
                new SnapshotHeaderRecord().setLastContainedLogTimestamp(NOW)), out);
        print("control: SNAPSHOT_FOOTER", MemoryRecords.withSnapshotFooterRecord(
                BASE_OFFSET, NOW, LEADER_EPOCH, ByteBuffer.allocate(512),
                new SnapshotFooterRecord()), out);
        print("control: KRAFT_VERSION", MemoryRecords.withKRaftVersionRecord(
                BASE_OFFSET, NOW, LEADER_EPOCH, ByteBuffer.allocate(512),
                new KRaftVersionRecord().setKRaftVersion((short) 1)), out);
        VotersRecord.Voter voter =
                new VotersRecord.Voter().setVoterId(1).setVoterDirectoryId(new Uuid(1, 2));
        print("control: KRAFT_VOTERS", MemoryRecords.withVotersRecord(
                BASE_OFFSET, NOW, LEADER_EPOCH, ByteBuffer.allocate(512),
                new VotersRecord().setVoters(List.of(voter))), out);
    }

    private static void printSequencesOfBatches(PrintStream out) {
        ByteBuffer all = ByteBuffer.allocate(1 << 16);
        long offset = 0;
        for (byte magic : new byte[] {0, 1, 2}) {
            TimestampType type =
                    magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
            for (CompressionType codec : List.of(CompressionType.NONE, CompressionType.GZIP)) {
                MemoryRecordsBuilder builder = builder(
                        magic, Compression.of(codec).build(), type, offset,
                        RecordBatch.NO_TIMESTAMP, false, false);
                for (int i = 0; i < 3; i++) {
                    byte[] value = bytes("magic %d %s %d".formatted(magic, codec.name, i));
                    append(builder, new Row(offset++, timestamp(magic, NOW + i), null, value));
                }
                all.put(builder.build().buffer());
            }
        }
        all.flip();
        print("a log through every magic", MemoryRecords.readableRecords(all), out);
    }

    // ---- building -------------------------------------------------------------------------------

    private static MemoryRecords of(
            byte magic, Compression compression, TimestampType type, List<Row> rows) {
        MemoryRecordsBuilder builder = builder(
                magic, compression, type, rows.get(0).offset, RecordBatch.NO_TIMESTAMP, false,
                false);
        rows.forEach(row -> append(builder, row));
        return builder.build();
    }

    private static MemoryRecordsBuilder builder(
            byte magic, Compression compression, TimestampType type, long baseOffset,
            long deleteHorizonMs, boolean isTransactional, boolean isControl) {
        long appendTime =
                type == TimestampType.LOG_APPEND_TIME ? APPEND_TIME : RecordBatch.NO_TIMESTAMP;
        int leaderEpoch = magic < RecordBatch.MAGIC_VALUE_V2
                ? RecordBatch.NO_PARTITION_LEADER_EPOCH
                : LEADER_EPOCH;
        return new MemoryRecordsBuilder(
                new ByteBufferOutputStream(1024), magic, compression, type, baseOffset, appendTime,
                RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE,
                isTransactional, isControl, leaderEpoch, 0, deleteHorizonMs);
    }

    private static void append(MemoryRecordsBuilder builder, Row row) {
        builder.appendWithOffset(row.offset, row.timestamp, row.key, row.value, row.headers);
    }

    /** What Kafka's log cleaner leaves when the first and the last but one record go: magic 2. */
    private static MemoryRecords compacted(MemoryRecords records) {
        ByteBuffer kept = ByteBuffer.allocate(1 << 16);
        records.filterTo(new MemoryRecords.RecordFilter(NOW, 0) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.DELETE_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return record.key().get() != 'a';
            }
        }, kept, BufferSupplier.NO_CACHING, Integer.MAX_VALUE);
        kept.flip();
        return MemoryRecords.readableRecords(kept);
    }

    private static Header header(String name, byte[] value) {
        return new RecordHeader(name, value);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    // ---- what Kafka reads -----------------------------------------------------------------------

    private static void print(String name, MemoryRecords records, PrintStream out) {
        ObjectNode line = MAPPER.createObjectNode();
        line.put("name", name);
        line.put("hex", hex(records.buffer()));
        ArrayNode batches = line.putArray("batches");
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            batches.add(batch(batch));
        }
        out.println(line);
    }

    private static ObjectNode batch(MutableRecordBatch batch) {
        ObjectNode node = MAPPER.createObjectNode();
        node.put("size", batch.sizeInBytes());
        node.put("magic", batch.magic());
        node.put("crc", batch.checksum());
        node.put("compression", batch.compressionType().name);
        node.put("timestamp_type", batch.timestampType().name);
        node.put("max_timestamp", batch.maxTimestamp());
        node.put("last_offset", batch.lastOffset());
        if (batch instanceof DefaultRecordBatch second) {
            node.put("base_offset", batch.baseOffset());
            node.put("base_timestamp", second.baseTimestamp());
            node.put("leader_epoch", batch.partitionLeaderEpoch());
            node.put("producer_id", batch.producerId());
            node.put("producer_epoch", batch.producerEpoch());
            node.put("base_sequence", batch.baseSequence());
            node.put("last_sequence", batch.lastSequence());
            node.put("is_transactional", batch.isTransactional());
            node.put("is_control", batch.isControlBatch());
            node.put("record_count", batch.countOrNull());
            batch.deleteHorizonMs().ifPresent(time -> node.put("delete_horizon_ms", time));
        }
        ArrayNode records = node.putArray("records");
        for (Record record : batch) {
            record.ensureValid();
            ObjectNode item = records.addObject();
            item.put("offset", record.offset());
            item.put("timestamp", record.timestamp());
            item.put("key", hex(record.key()));
            item.put("value", hex(record.value()));
            if (batch.isControlBatch()) {
                item.put("control", ControlRecordType.parse(record.key()).name());
            }
            ArrayNode headers = item.putArray("headers");
            for (Header header : record.headers()) {
                byte[] value = header.value();
                headers.addArray()
                        .add(HEX.formatHex(bytes(header.key())))
                        .add(value == null ? null : HEX.formatHex(value));
            }
        }
        return node;
    }

    private static String hex(ByteBuffer buffer) {
        return buffer == null ? null : HEX.formatHex(Utils.toArray(buffer.duplicate()));
    }

    // ---- hashes ---------------------------------------------------------------------------------

    private static void printHashes(PrintStream out) {
        Random random = new Random(2);
        Consumer<byte[]> print = key -> {
            ObjectNode line = MAPPER.createObjectNode();
            CRC32 crc32 = new CRC32();
            CRC32C crc32c = new CRC32C();
            crc32.update(key);
            crc32c.update(key);
            line.put("hex", HEX.formatHex(key));
            line.put("crc32", crc32.getValue());
            line.put("crc32c", crc32c.getValue());
            line.put("murmur2", Utils.murmur2(key));
            ObjectNode partitions = line.putObject("partition_of");
            for (int count : List.of(1, 2, 7, 12, 1000, Integer.MAX_VALUE)) {
                partitions.put(
                        String.valueOf(count), BuiltInPartitioner.partitionForKey(key, count));
            }
            out.println(line);
        };
        for (String key : List.of("key", "user-1", "user-2", "\u00e9\u20ac\ud83d\ude00")) {
            print.accept(bytes(key));
        }
        for (int size = 0; size <= 40; size++) {
            byte[] key = new byte[size];
            random.nextBytes(key);
            print.accept(key);
            Arrays.fill(key, (byte) 0xff);
            print.accept(key);
        }
        byte[] key = new byte[3000];
        random.nextBytes(key);
        print.accept(key);
    }
}

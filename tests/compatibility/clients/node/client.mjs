// KafkaJS, asked for what every other library is asked for: client.mjs admin|group ADDRESS TOPIC.
//
// What it saw is printed as lines name=value.
import { Kafka, logLevel } from "kafkajs";

const PARTITIONS = 3;
const LIMIT_MS = 40_000;

const [what, address, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });

async function admin(client) {
  console.log(`listed=${(await client.listTopics()).includes(topic)}`);
  const { topics } = await client.fetchTopicMetadata({ topics: [topic] });
  console.log(`partitions=${topics[0].partitions.length}`);
  await client.deleteTopics({ topics: [topic] });
  console.log(`deleted=${!(await client.listTopics()).includes(topic)}`);
}

async function group() {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  await producer.send({ topic, messages: numbers(0, 30) });
  console.log(`read=[${(await read(30)).join(" ")}]`);
  await producer.send({ topic, messages: numbers(30, 36) });
  console.log(`resumed=[${(await read(6)).join(" ")}]`);
  await producer.disconnect();
}

/** Join the group, read so many records, commit them and leave. */
async function read(count) {
  const consumer = kafka.consumer({ groupId: `${topic}-group`, maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const values = [];
  const ends = new Map();
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    const eachMessage = async ({ partition, message }) => {
      values.push(message.value.toString());
      ends.set(partition, (BigInt(message.offset) + 1n).toString());
      if (values.length >= count) resolve();
    };
    consumer.run({ autoCommit: false, eachMessage }).catch(reject);
  });
  await consumer.commitOffsets(
    [...ends].map(([partition, offset]) => ({ topic, partition, offset })),
  );
  await consumer.disconnect();
  return values.sort();
}

function numbers(from, end) {
  return Array.from({ length: end - from }, (_, place) => ({
    value: String(from + place).padStart(2, "0"),
    partition: (from + place) % PARTITIONS,
  }));
}

setTimeout(() => {
  console.error("not in time");
  process.exit(1);
}, LIMIT_MS).unref();
const client = kafka.admin();
await client.connect();
await client.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] });
await (what === "admin" ? admin(client) : group());
await client.disconnect();

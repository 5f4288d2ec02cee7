// kafkajs 2.2: admin and producer. Its consumer only works in a group. Usage: node check.js BOOTSTRAP TOPIC
const assert = require("assert");
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [bootstrap, topic] = process.argv.slice(2);
const START = 1700000000000;

async function main() {
  const kafka = new Kafka({ clientId: "check", brokers: [bootstrap], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  assert.strictEqual(
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries: [{ name: "retention.ms", value: "-1" }] }] }),
    true
  );
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    for (let number = 0; number < 5; number++) {
      const headers = { a: "1", many: ["x", "y"] };
      await producer.send({ topic, acks: -1, compression, messages: [{ key: `k${number}`, value: `v${number}`, headers, timestamp: String(START + number * 1000) }] });
    }
  }
  await producer.disconnect();
  const [offsets] = await admin.fetchTopicOffsets(topic);
  assert.deepStrictEqual([offsets.low, offsets.high], ["0", "10"]);
  const [byTime] = await admin.fetchTopicOffsetsByTimestamp(topic, START + 2500);
  assert.strictEqual(byTime.offset, "3");
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  const metadata = await admin.fetchTopicMetadata({ topics: [topic] });
  assert.strictEqual(metadata.topics[0].partitions.length, 3);
  const described = await admin.describeConfigs({ resources: [{ type: 2, name: topic, configNames: ["retention.ms"] }], includeSynonyms: false });
  assert.strictEqual(described.resources[0].configEntries[0].configValue, "-1");
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: topic, configEntries: [{ name: "retention.ms", value: "-1" }, { name: "segment.ms", value: "70000" }] }] });
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "4" }] });
  const [later] = (await admin.fetchTopicOffsets(topic)).filter((one) => one.partition === 0);
  assert.strictEqual(later.low, "4");
  assert.strictEqual((await admin.describeCluster()).brokers.length, 1);
  await admin.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

// kafkajs 2.2 over TLS and SASL: produces and consumes one record. Reads its settings as JSON from stdin.
const assert = require("assert");
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const given = JSON.parse(fs.readFileSync(0, "utf8"));

function settings() {
  const found = { clientId: "check", brokers: [given.bootstrap], logLevel: logLevel.NOTHING, retry: { retries: given.retries } };
  if (given.authority) {
    found.ssl = { ca: [fs.readFileSync(given.authority, "utf8")] };
    if (given.certificate) {
      const pem = fs.readFileSync(given.certificate, "utf8");
      found.ssl.key = pem;
      found.ssl.cert = pem;
    }
  }
  if (given.mechanism === "OAUTHBEARER") {
    found.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: given.token }) };
  } else if (given.mechanism) {
    found.sasl = { mechanism: given.mechanism.toLowerCase(), username: given.user, password: given.password };
  }
  return found;
}

async function main() {
  const kafka = new Kafka(settings());
  const producer = kafka.producer();
  try {
    await producer.connect();
    await producer.send({ topic: given.topic, acks: -1, messages: [{ value: "one" }] });
  } finally {
    await producer.disconnect();
  }
  const consumer = kafka.consumer({ groupId: given.topic });
  await consumer.connect();
  await consumer.subscribe({ topic: given.topic, fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  await consumer.disconnect();
  assert.strictEqual(value, "one");
  console.log("ok");
}

main().catch((error) => {
  console.error(`${error.name}: ${error.message}`);
  process.exit(error.name === "KafkaJSSASLAuthenticationError" || error.name === "KafkaJSConnectionError" || error.name === "KafkaJSNumberOfRetriesExceeded" ? 3 : 1);
});

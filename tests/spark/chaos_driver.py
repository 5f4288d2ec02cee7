"""The driver of a campaign of kills: copies `source` to `target`, and restarts its query whenever it fails."""

from __future__ import annotations

import sys

from penstock_spark.session import builder


def main(bootstrap: str, checkpoint: str, *words: str) -> int:
    session = (
        builder("chaos", master="local[2,4]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    spark = session.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    failures = 0
    while True:
        reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
        frame = reader.options(subscribe="source", startingOffsets="earliest", maxOffsetsPerTrigger="100000").load()
        writer = frame.select("key", "value").writeStream.format("penstock").option("topic", "target")
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("checkpointLocation", checkpoint)
        try:
            if "finish" in words:
                query = writer.trigger(availableNow=True).start()
            else:
                query = writer.trigger(processingTime="0 seconds").start()
            if not failures:
                print("running", flush=True)
            query.awaitTermination()
        except Exception as error:
            failures += 1
            print(f"restarting the failed query: {error}", file=sys.stderr, flush=True)
            if "finish" in words and failures > 5:
                return 1
            continue
        spark.stop()
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

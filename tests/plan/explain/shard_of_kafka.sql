-- stream clicks: key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP
-- setting: shard_expiry = "7d"
SELECT topic, count(*) AS n FROM clicks GROUP BY tumblingwindow('mi', 1), topic

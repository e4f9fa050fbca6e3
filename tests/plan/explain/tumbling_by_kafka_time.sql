-- stream clicks: key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP
-- setting: shard = "partition"
-- setting: idle_timeout = "30s"
-- setting: on_idle = "advance"
-- setting: max_groups = 1000
SELECT topic, count(*) AS n FROM clicks GROUP BY tumblingwindow('mi', 1), topic

-- stream payments: ts TIMESTAMP, id STRING, amount BIGINT, parts BIGINT
-- setting: event_time_field = "ts"
-- setting: allowed_lateness = "20s"
-- setting: dedup_key = "concat(id, amount / parts)"
-- setting: dedup_horizon = "1h"
-- setting: error_policy = "side_output"
SELECT count(*) AS n FROM payments WHERE amount > 0 GROUP BY tumblingwindow('mi', 1)

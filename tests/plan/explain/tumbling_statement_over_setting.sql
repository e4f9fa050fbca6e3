-- stream clicks: ts TIMESTAMP, seen TIMESTAMP, user STRING
-- setting: event_time_field = "seen"
-- setting: watermark_lag = "2s"
-- setting: allowed_lateness = "30s"
SELECT user, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), user
WATERMARK (INTERVAL '5' SECOND)

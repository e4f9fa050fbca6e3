-- stream clicks: ts TIMESTAMP, user STRING
-- setting: time = "processing"
SELECT user, count(*) AS n FROM clicks GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), user

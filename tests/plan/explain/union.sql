-- stream web: ts TIMESTAMP, user STRING
-- stream app: user STRING, ts TIMESTAMP
-- setting: event_time_field = "ts"
SELECT user, count(*) AS n FROM web UNION ALL app GROUP BY tumblingwindow('mi', 1), user

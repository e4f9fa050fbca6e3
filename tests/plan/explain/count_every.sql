-- stream parts: ts TIMESTAMP, size INT, line STRING
-- setting: event_time_field = "ts"
SELECT line, max(size) AS size FROM parts GROUP BY countwindow(100, 10) OVER (PARTITION BY line), line

-- stream clicks: ts TIMESTAMP, user STRING, pages BIGINT
-- setting: event_time_field = "ts"
SELECT * FROM clicks GROUP BY tumblingwindow('ss', 10)

-- stream clicks: ts TIMESTAMP, user STRING, pages BIGINT
-- setting: event_time_field = "ts"
-- setting: watermark_lag = "2s"
-- setting: allowed_lateness = "500ms"
SELECT user, sum(pages) AS pages FROM clicks GROUP BY tumblingwindow('ss', 10, -3), user

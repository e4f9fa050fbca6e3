-- stream clicks: ts TIMESTAMP, user STRING, pages BIGINT
-- setting: event_time_field = "ts"
SELECT user, histogram_numeric(pages, 5) AS shape, count(*) AS n FROM clicks
GROUP BY tumblingwindow('ss', 10), user

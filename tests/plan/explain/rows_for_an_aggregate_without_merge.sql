-- stream clicks: ts TIMESTAMP, user STRING, pages BIGINT
-- setting: event_time_field = "ts"
SELECT user, percentile(pages, 0.5) AS middle, count(*) AS n FROM clicks
GROUP BY tumblingwindow('ss', 10), user

-- stream clicks: ts TIMESTAMP, user STRING, pages BIGINT
-- setting: event_time_field = "ts"
-- setting: streaming_aggregation = "off"
SELECT user, sum(pages) AS pages FROM clicks GROUP BY tumblingwindow('ss', 10), user

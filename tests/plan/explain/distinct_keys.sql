-- stream clicks: ts TIMESTAMP, user STRING, pages BIGINT
-- setting: event_time_field = "ts"
SELECT user, upper(user) AS loud FROM clicks GROUP BY tumblingwindow('ss', 10), user

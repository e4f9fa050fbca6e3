-- stream raw: body STRING, ts TIMESTAMP
-- setting: event_time_field = "at"
WITH parsed AS (SELECT get_json_object(body, '$.user') AS user, ts AS at FROM raw)
SELECT user, count(*) AS n FROM parsed GROUP BY tumblingwindow('hh', 1), user

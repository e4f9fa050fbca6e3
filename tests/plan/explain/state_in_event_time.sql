-- stream readings: ts TIMESTAMP, a INT, b INT, device STRING
-- setting: event_time_field = "ts"
-- setting: allowed_lateness = "3s"
SELECT device, count(*) AS n FROM readings
GROUP BY statewindow(a > 0, b = 1) OVER (PARTITION BY device), device

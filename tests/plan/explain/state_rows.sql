-- stream readings: a INT, b INT, device STRING
-- setting: time = "processing"
-- also as JSON
SELECT * FROM readings GROUP BY statewindow(a > 0, b = 1) OVER (PARTITION BY device)

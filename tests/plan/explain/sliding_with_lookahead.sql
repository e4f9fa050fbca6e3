-- stream trades: ts TIMESTAMP, symbol STRING, price DOUBLE
-- setting: event_time_field = "ts"
SELECT window_trigger() AS at, max(price) AS top FROM trades
GROUP BY slidingwindow('ss', 10, 15) OVER (PARTITION BY symbol WHEN price > 100)

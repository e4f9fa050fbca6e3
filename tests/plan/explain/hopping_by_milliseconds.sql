-- stream trades: at BIGINT, symbol STRING, price DOUBLE, received_at TIMESTAMP
-- setting: event_time_unit = "ms"
-- setting: null_event_time = "fallback"
SELECT symbol, min(price) AS low, max(price) AS high FROM trades
GROUP BY HOP(at, INTERVAL '1' MINUTE, INTERVAL '1' HOUR, INTERVAL '7' MINUTE), symbol

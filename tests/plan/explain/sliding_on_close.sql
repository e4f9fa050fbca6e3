-- stream trades: ts TIMESTAMP, symbol STRING, price DOUBLE
SELECT symbol, max(price) AS top FROM trades
GROUP BY slidingwindow('ms', 250), symbol ON ts WATERMARK (INTERVAL '1' SECOND)
EMIT ON WINDOW CLOSE

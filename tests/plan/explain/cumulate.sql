-- stream orders: ts TIMESTAMP_NTZ, amount DECIMAL(10,2)
-- also as JSON
SELECT sum(amount) AS total, stddev(amount) AS spread FROM orders
WINDOW CUMULATE (SIZE INTERVAL '1' HOUR, STEP INTERVAL '5' MINUTE) ON ts
WATERMARK (INTERVAL '10' SECOND)

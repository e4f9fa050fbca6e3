-- stream flights: ts TIMESTAMP, carrier STRING, delay INT
-- table airlines: carrier STRING, name STRING
SELECT name, avg(delay) AS delay FROM flights JOIN airlines USING (carrier)
WHERE delay IS NOT NULL
GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), name

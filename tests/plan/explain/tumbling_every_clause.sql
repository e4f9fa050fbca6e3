-- stream logs: ts TIMESTAMP, host STRING, status INT, bytes BIGINT
-- also as JSON
SELECT host, count(*) AS requests, sum(bytes) AS bytes, avg(bytes) AS mean,
       max(bytes) FILTER (WHERE status >= 500) AS worst, window_start() AS s, window_end() AS e
FROM logs
WHERE status > 0
GROUP BY host
HAVING count(*) > 1
WINDOW TUMBLING (SIZE INTERVAL '1' MINUTE) ON ts
WATERMARK (INTERVAL '5' SECOND, ALLOWED LATENESS INTERVAL '1' MINUTE)
ORDER BY requests DESC, host
LIMIT 10

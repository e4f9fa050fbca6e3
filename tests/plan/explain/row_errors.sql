-- stream orders: ts TIMESTAMP, raw STRING, total BIGINT, parts INT, list ARRAY<INT>
-- also as JSON
SELECT total % parts AS rest, sum(total / parts) FILTER (WHERE parts > 0) AS share,
       max(CAST(raw AS INT) + list[0]) AS most, sum(total) / (count(*) - 1) AS mean
FROM orders WHERE raw > 5
GROUP BY tumblingwindow('ss', 10), total % parts ON ts
HAVING sum(parts) + 1 > 0

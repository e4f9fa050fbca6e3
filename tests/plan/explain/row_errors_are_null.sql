-- stream orders: ts TIMESTAMP, total BIGINT
-- setting: error_policy = "null"
SELECT sum(total + 1) AS s FROM orders GROUP BY tumblingwindow('ss', 10) ON ts

-- stream clicks: ts TIMESTAMP, user STRING
-- setting: lateness = "record"
SELECT user, count(*) AS n FROM clicks
GROUP BY hoppingwindow('mi', 10, 5), user ON ts WATERMARK (INTERVAL '5' SECOND)

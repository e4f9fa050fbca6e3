-- stream views: page STRING, seconds INT
-- setting: time = "processing"
-- also as JSON
SELECT page, count(*) AS n, avg(seconds) AS mean FROM views GROUP BY slidingwindow('ss', 10), page

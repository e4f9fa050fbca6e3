-- stream visits: ts STRING, user STRING
-- setting: allowed_lateness = "1m"
SELECT user, count(*) AS n, window_start() AS s, window_end() AS e FROM visits
GROUP BY sessionwindow('ss', 30), user ON ts

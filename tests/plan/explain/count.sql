-- stream parts: size INT
SELECT count(*) AS n, sum(size) AS size FROM parts GROUP BY countwindow(100)

-- stream clicks: user STRING, pages BIGINT
SELECT user, first(pages) AS f, last(pages) AS l FROM clicks GROUP BY tumblingwindow('mi', 1), user

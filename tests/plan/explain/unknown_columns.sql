-- stream clicks
SELECT user, count(*) AS n FROM clicks GROUP BY TUMBLE(to_timestamp(at), INTERVAL '1' MINUTE), user

-- Tables that are made anew from what there is now can be said in SQL.
CREATE MATERIALIZED VIEW countries AS
SELECT country, count(*) AS customers
FROM customers
GROUP BY country;

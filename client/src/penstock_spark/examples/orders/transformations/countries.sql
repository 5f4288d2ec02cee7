-- Materialized views, which are recomputed from their current sources, can be defined in SQL.
CREATE MATERIALIZED VIEW countries AS
SELECT country, count(*) AS customers
FROM customers
GROUP BY country;

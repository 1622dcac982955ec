-- What each customer ordered: a join over both databases.
CREATE MATERIALIZED VIEW order_lines
WITH STRONG CONSISTENCY
AS
SELECT c.name, c.segment, o.id AS order_id, o.placed, l.line, l.article, l.price
FROM crm.customers AS c
JOIN shop.orders AS o ON o.customer = c.id
JOIN shop.lines AS l ON l.order_id = o.id
WHERE l.price > 0

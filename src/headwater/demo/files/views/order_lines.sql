-- Who ordered what: a join over all three databases.
CREATE MATERIALIZED VIEW order_lines
WITH STRONG CONSISTENCY
AS SELECT c.name, c.city, o.id AS order_id, l.article, l.quantity * l.price AS total
   FROM crm.customers AS c
   JOIN shop.orders AS o ON o.customer = c.id
   JOIN stock.lines AS l ON l.order_id = o.id

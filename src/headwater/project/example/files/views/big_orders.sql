-- Complete: every state that the shop went through is shown, one after the other.
CREATE MATERIALIZED VIEW big_orders
WITH COMPLETE CONSISTENCY
AS
SELECT o.id, o.placed, l.line, l.article, l.price
FROM shop.orders AS o
JOIN shop.lines AS l ON l.order_id = o.id
WHERE l.price >= 100

-- Neither keys nor unique rows: the same price may be there a hundred times.
CREATE MATERIALIZED VIEW prices
AS SELECT l.article, l.price
   FROM shop.orders AS o JOIN stock.lines AS l ON l.order_id = o.id
   WHERE o.state = 'open'

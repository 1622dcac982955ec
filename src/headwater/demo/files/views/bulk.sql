-- One table only, so no database is ever asked; collected to one commit a second.
CREATE MATERIALIZED VIEW bulk
REFRESH EVERY '1 second'
AS SELECT l.order_id, l.article, l.quantity FROM stock.lines AS l WHERE l.quantity >= 8

-- Complete: every state that it went through is shown, however short. The condition
-- compares columns of two databases, so a change of either may add or remove rows.
CREATE MATERIALIZED VIEW over_credit
WITH COMPLETE CONSISTENCY
AS SELECT c.id AS customer, c.name, o.id AS order_id, o.amount - c.credit AS too_much
   FROM crm.customers AS c JOIN shop.orders AS o ON o.customer = c.id
   WHERE o.amount > c.credit

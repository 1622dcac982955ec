CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    segment TEXT NOT NULL
);
INSERT INTO customers VALUES
    (1, 'Ada', 'retail'),
    (2, 'Ben', 'wholesale'),
    (3, 'Cleo', 'retail');

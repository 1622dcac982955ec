CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer INTEGER NOT NULL,
    placed DATE NOT NULL
);
CREATE INDEX orders_customer ON orders (customer);
CREATE TABLE lines (
    order_id INTEGER NOT NULL,
    line INTEGER NOT NULL,
    article TEXT NOT NULL,
    price DECIMAL(10,2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
INSERT INTO orders VALUES
    (100, 1, '2024-05-01'),
    (101, 2, '2024-05-02'),
    (102, 1, '2024-05-02');
INSERT INTO lines VALUES
    (100, 1, 'tea', 4.50),
    (100, 2, 'cups', 24.00),
    (101, 1, 'tea', 450.00),
    (102, 1, 'sample', 0);

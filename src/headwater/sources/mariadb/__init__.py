"""MariaDB and MySQL as sources."""

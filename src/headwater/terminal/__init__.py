"""What people see: text, tables, errors and live pictures of a run, and JSON for machines."""

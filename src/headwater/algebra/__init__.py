"""Relations as a ring: values, schemas, signed multisets, views, terms, plain evaluation."""

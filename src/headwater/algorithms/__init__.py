"""View managers, one published algorithm a module, and the registry that describes them."""

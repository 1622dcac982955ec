"""Views, conditions and expressions from SQL, and refusals in words of what is not understood."""

"""What several published algorithms are made of."""

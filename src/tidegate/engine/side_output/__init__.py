"""Side output: a structured record for each row that could not be used."""

"""The contract in plain Python: record by record, over lists, sharing no code with the product."""

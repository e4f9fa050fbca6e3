"""The grammar: Spark SQL and the clauses of stream windows, with the place of every node."""

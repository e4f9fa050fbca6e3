"""Analysis: what Spark's analyzer is asked before a query starts."""

"""The SQL front end: from text to a bound query. The only place that knows sqlglot."""

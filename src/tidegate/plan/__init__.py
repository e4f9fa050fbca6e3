"""Plans as frozen data: windows, statements, settings, aggregates. No Spark, no I/O."""

"""The planner: from a bound query to its plans. No Spark."""

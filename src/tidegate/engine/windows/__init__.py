"""Windows: one operator for each way in which windows keep their state and close."""

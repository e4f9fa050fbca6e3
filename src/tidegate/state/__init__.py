"""State: Parquet segments, and a manifest for each epoch that says which of them are the state."""

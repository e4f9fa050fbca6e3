"""Reading: from text to ``SelectStmt``, before any name in it is looked up."""

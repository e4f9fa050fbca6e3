"""What notebooks show of queries, results and runs: plain HTML and SVG, without scripts."""

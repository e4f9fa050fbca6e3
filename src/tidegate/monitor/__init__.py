"""Shows running transforms, live: as a page in a browser, and in a terminal.

It reads checkpoints and nothing else, so it works beside a running job and after its end.
"""

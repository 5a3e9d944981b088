"""The protocols that the loops and the runner depend on; nothing concrete."""

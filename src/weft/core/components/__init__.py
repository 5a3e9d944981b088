"""The components that users compose, one concept per file."""

"""The components that users compose, one concept a file."""

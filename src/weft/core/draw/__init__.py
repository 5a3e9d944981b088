"""Pictures of workflows and runs: one neutral model, a layout of our own, and a renderer for each format."""

"""
How fast Weft is on PostgreSQL: a runner, workers in processes of their own, and the alternatives on the same server.

The server is started in a temporary folder and always stopped.  It competes for the cores with what is measured, so
read the figures beside the load that is printed.
"""

"""A server that is a command: its processes, spoken to over standard input and output."""

"""A client that can only speak over standard input and output, brought to the endpoint."""

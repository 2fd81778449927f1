"""Legacy clients on a modern server: the shim itself is the server of their sessions (LM)."""

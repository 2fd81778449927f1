"""Messages, streams, headers and eras, without any I/O."""

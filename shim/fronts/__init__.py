"""What clients talk to: the one endpoint, and a front for each era."""

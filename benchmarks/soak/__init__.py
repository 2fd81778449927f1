"""A soak: hours of mixed load in both eras, and whether anything grows that should not."""

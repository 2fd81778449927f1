"""What the shim costs, side by side with a bare byte pass-through: `python -m benchmarks.run`."""

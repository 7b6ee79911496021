"""Studies on the testbed (docs/testbed.md)."""

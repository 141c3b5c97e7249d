"""What leaves the kernel: redacted, then bounded. Pure: no files, no clock, no environment."""

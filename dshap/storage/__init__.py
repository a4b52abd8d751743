"""Bytes under names, on a disk or in a bucket: files, seals, leases and runs."""

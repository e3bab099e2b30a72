"""Samples of devices: read from sources, stored, watched for gaps."""

"""The API over HTTP: requests in, answers and streams out."""

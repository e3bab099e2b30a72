"""The generated table of kinds (schemas, defaults, columns, list-map keys) and its reader."""

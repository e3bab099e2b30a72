"""The images that people choose from: the catalogue, what else may be used, and which drivers serve it."""

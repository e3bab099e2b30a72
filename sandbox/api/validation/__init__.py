"""What an object must be: rules of schemas, of metadata, and of single kinds."""

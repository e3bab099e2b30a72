"""The shapes of REST's bodies and how figures look. Pure."""

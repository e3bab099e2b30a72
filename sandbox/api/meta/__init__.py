"""Plain-dict objects, refusals, quantities, selectors."""

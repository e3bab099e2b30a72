"""What an operator looks at: doctor, support bundle, metrics."""

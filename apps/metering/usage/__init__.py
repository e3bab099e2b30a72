"""What devices were used for, as sums, series and states."""

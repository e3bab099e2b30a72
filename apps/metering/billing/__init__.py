"""Money: prices, exact charges, costs, bills, closed months, corrections and forecasts."""

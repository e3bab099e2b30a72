"""How people come in, and what rules on their groups give them."""

"""Two of every part over PostgreSQL, Redis and a real control plane, behind a balancer: what may be
restarted, replaced and killed while people work. `make stack` starts one by hand.
"""

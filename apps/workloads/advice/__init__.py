"""Which offer suits a need, and why: a pure judgement over fleet, prices and quota."""

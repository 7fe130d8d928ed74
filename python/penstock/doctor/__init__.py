"""`penstock doctor`: whether a machine is fit for what `penstock serve` is asked to do there.

It reads, and changes nothing. Each check says what it has seen, what is wanted, why, and how to change it.
"""

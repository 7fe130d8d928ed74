"""A standing adversarial run: attacks on `penstock serve`, and what an honest client notices of them."""

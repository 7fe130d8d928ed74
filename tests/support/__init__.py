"""What the test packages share: clients, waits, event loops and the leak check."""

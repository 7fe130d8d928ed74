"""Topics and their subscribers, over real sockets."""

"""Calls of gRPC through penstock, by grpcio on both sides."""
